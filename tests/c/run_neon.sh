#!/usr/bin/env bash
# The C tests on 64-bit ARM: built by Debian's cross compiler, run by qemu-user, plain and under ASan and UBSan.
# Needs gcc-aarch64-linux-gnu, qemu-user, libsqlite3-dev, and meson, ninja and cffi on the PATH.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null || {
    echo "the cross compiler or the emulator was not found (Debian: apt-get install gcc-aarch64-linux-gnu qemu-user)" >&2
    exit 1
}

# Leaks are looked for on the build machine: it needs ptrace, which qemu-user has not.
export ASAN_OPTIONS=detect_leaks=0
for sanitize in none address,undefined; do
    meson setup --cross-file "$root/tests/c/aarch64-linux-gnu.ini" -Db_sanitize=$sanitize -Db_lundef=false "$work/$sanitize" "$root" >/dev/null
    meson test -C "$work/$sanitize" --print-errorlogs --timeout-multiplier 10
done
