#!/usr/bin/env bash
# The package in Debian's Python for 64-bit ARM, emulated: the demonstration, index files that must have the answers of this machine,
# and the tests that are named, or some that are quick. Hypothesis plays few rounds: emulation takes ten times as long.
#   tests/cross/arm_python.sh WHEEL [TEST...]     WHEEL: tests/package/build.py SDIST FOLDER manylinux_2_17_aarch64
# Needs root, Debian's debootstrap and this package for `python`; and Linux 6.7, for the system is told how to run programs of ARM
# (binfmt_misc) in a namespace of its own, so that nothing else here changes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
shift
[ "$#" -gt 0 ] || set -- test_fingerprint.py test_hash.py test_kernels.py test_files.py

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arm="$work/arm"
(cd "$work" && apt-get -q download qemu-user-static && dpkg-deb -x qemu-user-static_*.deb qemu) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
debootstrap --arch=arm64 --foreign --variant=minbase --include=ca-certificates,git,python3,sqlite3,unicode-data \
    bookworm "$arm" >"$work/log" || { tail "$work/log"; exit 1; }
for package in "$arm"/var/cache/apt/archives/*.deb; do # unpacked only: their scripts would run for long
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$arm"
done
if [ -L "$arm/proc" ]; then rm "$arm/proc" && mkdir "$arm/proc"; fi # in there a link to itself
echo "root:x:0:0::/root:/bin/bash" >"$arm/etc/passwd"
echo "127.0.0.1 localhost" >"$arm/etc/hosts"

# Without pip, which emulated takes minutes.
pip install -q --target "$arm/site" --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none 'apsw>=3.51' 'cffi>=2.0' 'click>=8.1' \
    'datasette>=0.65,<1' 'duckdb>=1.2' 'hypothesis>=6.100' 'narwhals>=2.0' 'numpy>=1.24' 'pandas>=2.2' 'polars>=1.0' 'pyarrow>=19' \
    'pytest>=8' 'pytest-xdist>=3.3' 'rich>=13' xxhash zstandard
python -m zipfile -e "$wheel" "$arm/site"
cat >"$arm/site/slow.py" <<'END'
from hypothesis import HealthCheck, settings

settings.register_profile("slow", deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow")
END
mkdir -p "$arm/source" "$work/here" "$arm/there"

arm_python() { unshare -U -r -m bash -euo pipefail -c "$inside" - "$work" "$root" "$@"; }
inside='
work=$1 arm=$1/arm
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
printf "%s" ":arm:M::$magic:$mask:$work/qemu/usr/bin/qemu-aarch64-static:F" >/proc/sys/fs/binfmt_misc/register
for folder in proc dev sys; do mount --rbind "/$folder" "$arm/$folder"; done
mount --bind "$2" "$arm/source"
shift 2
exec chroot "$arm" /usr/bin/env -i -C /source PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=/site PYTHONDONTWRITEBYTECODE=1 \
    HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis /usr/bin/python3 -P "$@"'

arm_python -c 'import platform; print(platform.machine(), platform.python_version())'
arm_python -m neardup_db demo --json >/dev/null

# Written here and there: the same answers, fingerprint by fingerprint. Then each reads and changes what the other wrote.
exchange() { python -P "$root/tests/cross/exchange.py" "$1" "$work/here" && arm_python tests/cross/exchange.py "$1" /there && same; }
same() { for answers in "$work"/here/*.jsonl; do cmp "$answers" "$arm/there/${answers##*/}"; done; }
exchange write
mkdir "$work/swap"
mv "$work"/here/*.db "$work/swap" && mv "$arm"/there/*.db "$work/here" && mv "$work"/swap/*.db "$arm/there"
exchange read
exchange change
echo "index files: the same answers, byte for byte"

arm_python -m pytest -q -p slow -p no:cacheprovider "${@/#/tests/}"
