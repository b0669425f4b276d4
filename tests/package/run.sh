#!/usr/bin/env bash
# The package as its users get it: the sdist builds without a network; the wheel made of it runs on every Linux of the last ten years
# (glibc 2.17), without a compiler, and on a CPU that has no AVX; the tests that the sdist brings pass with that wheel.
# Usage: tests/package/run.sh [FOLDER], where FOLDER gets the sdist and the wheel. Wheels for the other platforms are cibuildwheel's.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/python" -m pip install -q -U abi3audit auditwheel build cffi check-jsonschema check-wheel-contents meson meson-python \
    ninja pip twine wheel ziglang zizmor # pip, since that of Debian 12 has no -C
path=$PATH PATH="$work/tools/bin:$PATH"

# Workflows and the citation are what their readers expect.
(cd "$root" && zizmor -q --offline --min-severity medium .github/workflows)
check-jsonschema -q --builtin-schema vendor.github-workflows "$root"/.github/workflows/*.yml
check-jsonschema -q --builtin-schema custom.github-workflows-require-timeout "$root"/.github/workflows/*.yml
check-jsonschema -q --builtin-schema vendor.citation-file-format "$root/CITATION.cff"

# Zig is compiler and C library, so that no other header is in reach but those of SQLite, and what Debian's own Python has where
# only Debian's compilers look.
export ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig"
offline() { if unshare -rn true 2>/dev/null; then unshare -rn "$@"; else "$@"; fi; }
processor=$(uname -m) headers="$work/headers"
mkdir "$headers"
cp "${SQLITE_HEADERS:-/usr/include}"/sqlite3{,ext}.h "$headers"
include=$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [ -d "/usr/include/$processor-linux-gnu/${include##*/}" ]; then
    mkdir "$headers/$processor-linux-gnu" && cp -r "/usr/include/$processor-linux-gnu/${include##*/}" "$headers/$processor-linux-gnu"
fi
python -m build -q --sdist --no-isolation --outdir "$work/dist" "$root"
CC="python-zig cc -target $processor-linux-gnu.2.17 -idirafter $headers" AR="python-zig ar" LDFLAGS=-Wl,-s \
    offline pip wheel -q --no-index --no-build-isolation --no-deps -w "$work/built" -Csetup-args="-Dsqlite_headers=$headers" \
    -Csetup-args=-Dpython.allow_limited_api=true "$work"/dist/*.tar.gz
tag=manylinux_2_17_$processor # any Python builds for the stable ABI of the oldest
python -m wheel tags --remove --python-tag cp310 --platform-tag "$tag" "$work"/built/*.whl >/dev/null
mv "$work"/built/*.whl "$work/dist"
wheel=$(echo "$work"/dist/*.whl)

auditwheel show "$wheel" | tr '\n' ' ' | grep "is consistent with the following platform tag: \"$tag\"" >/dev/null
abi3audit --strict --summary "$wheel"
check-wheel-contents "$wheel"
twine check --strict "$work"/dist/*
python "$root/tests/package/wheel.py" "$wheel"

# A program that has no compiler in reach, and its demonstration on a CPU of 2008.
python3 -m venv "$work/bare"
env -i PATH="$work/bare/bin" HOME="$work" PIP_CERT="${PIP_CERT-}" pip install -q --only-binary :all: "$wheel"
env -i PATH="$work/bare/bin" HOME="$work" neardup demo --json >/dev/null
old="qemu-x86_64 -cpu Nehalem $work/bare/bin/python -I"
[ "$($old -c 'from neardup_db.native import lib, text_of; print(text_of(lib.nd_isa_name()))')" = scalar ]
$old "$work/bare/bin/neardup" demo --json >/dev/null

"$work/bare/bin/pip" install -q "$wheel[test]"
tar -xzf "$work"/dist/*.tar.gz -C "$work"
(cd "$work"/neardup_db-*/ && PATH="$work/bare/bin:$path:$work/tools/bin" pytest -q -p no:cacheprovider tests/test_arrow.py \
    tests/test_files.py tests/test_index.py tests/test_kernels.py tests/test_package.py tests/test_sql.py \
    tests/test_standard_connection.py tests/test_standard_processes.py)

if [ $# -ge 1 ]; then cp "$work"/dist/* "$1"; fi
