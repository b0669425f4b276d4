#!/usr/bin/env bash
# The package as its users get it: the sdist builds without a network; the wheel made of it runs on every Linux of the last ten years
# (glibc 2.17), without a compiler, and on a CPU that has no AVX; the tests that the sdist brings pass with that wheel.
# Usage: tests/package/run.sh [FOLDER [PLATFORM...]], where FOLDER gets the sdist and the wheel, and also wheels for the other
# platforms that are named (tests/package/build.py --help), which are looked at, but not run.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/python" -m pip install -q --no-compile -U abi3audit auditwheel build cffi check-jsonschema check-wheel-contents meson meson-python \
    ninja pip twine wheel ziglang zizmor # pip, since that of Debian 12 has no -C
path=$PATH PATH="$work/tools/bin:$PATH"

# Workflows and the citation are what their readers expect.
(cd "$root" && zizmor -q --offline --min-severity medium .github/workflows)
check-jsonschema -q --builtin-schema vendor.github-workflows "$root"/.github/workflows/*.yml
check-jsonschema -q --builtin-schema custom.github-workflows-require-timeout "$root"/.github/workflows/*.yml
check-jsonschema -q --builtin-schema vendor.citation-file-format "$root/CITATION.cff"

# Zig is compiler and C library, so that no other header is in reach but those of SQLite.
export ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig"
offline() { if unshare -rn true 2>/dev/null; then unshare -rn "$@"; else "$@"; fi; }
python -m build -q --sdist --no-isolation --outdir "$work/dist" "$root"
offline python "$root/tests/package/build.py" "$work"/dist/*.tar.gz "$work/dist" manylinux_2_17_x86_64 "${@:2}"
wheel=$(echo "$work"/dist/*-manylinux_2_17_x86_64.whl)

for made in "$work"/dist/*-manylinux_*.whl; do
    auditwheel show "$made" | tr '\n' ' ' | grep "is consistent with the following platform tag: \"$(basename "${made##*-}" .whl)\"" >/dev/null
done
abi3audit --strict --summary "$work"/dist/*.whl
check-wheel-contents "$work"/dist/*.whl
twine check --strict "$work"/dist/*
python "$root/tests/package/wheel.py" "$work"/dist/*.whl

# A program that has no compiler in reach, and its demonstration on a CPU of 2008.
python3 -m venv "$work/bare"
env -i PATH="$work/bare/bin" HOME="$work" PIP_CERT="${PIP_CERT-}" pip install -q --only-binary :all: "$wheel"
env -i PATH="$work/bare/bin" HOME="$work" neardup demo --json >/dev/null
old="qemu-x86_64 -cpu Nehalem $work/bare/bin/python -I"
[ "$($old -c 'from neardup_db.native import lib, text_of; print(text_of(lib.nd_isa_name()))')" = scalar ]
$old "$work/bare/bin/neardup" demo --json >/dev/null

"$work/bare/bin/pip" install -q --no-compile "$wheel[test]"
tar -xzf "$work"/dist/*.tar.gz -C "$work"
(cd "$work"/neardup_db-*/ && PATH="$work/bare/bin:$path:$work/tools/bin" pytest -q -p no:cacheprovider tests/test_arrow.py \
    tests/test_files.py tests/test_index.py tests/test_kernels.py tests/test_package.py tests/test_sql.py \
    tests/test_standard_connection.py tests/test_standard_processes.py)

if [ $# -ge 1 ]; then cp "$work"/dist/* "$1"; fi
