#!/usr/bin/env bash
# run.sh [SECONDS [TARGET...]]: builds the fuzz targets with libFuzzer under ASan and UBSan and runs each for SECONDS (60), two at a
# time (JOBS=n). Fails on any finding, and then leaves its folder (FUZZ_DIR, or a new one in the folder for temporary files).
# Needs Debian's clang with its libclang-rt-dev, and libsqlite3-dev.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-60}
shift || true
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(text unicode values joins sketches sql)
jobs=${JOBS:-2}

command -v clang >/dev/null || {
    echo "clang was not found: the fuzz targets are built with it (Debian: apt-get install clang libclang-rt-14-dev)" >&2
    exit 1
}

work=${FUZZ_DIR:-$(mktemp -d)}
mkdir -p "$work/objects" "$work/findings"
export root work flags="-std=c11 -O1 -g -fno-omit-frame-pointer -Wall -Wextra -Wno-unused-parameter -I$root/csrc -I$work -DND_PACKAGE_VERSION=\"fuzz\""
export sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"

# What the extension and its target have of SQL, as their build embeds it.
python3 "$root/csrc/sqlite/embed_sql.py" "$root"/neardup_db/sql/*.sql "$work/sql_texts.h"
python3 "$root/csrc/sqlite/embed_sql.py" "$root"/migrations/*.sql "$root"/neardup_db/sql/keys_*.sql "$work/fuzz_texts.h"

# The core and the extension allocate through memory.c, which can refuse. The targets' own comparisons are not traced: their plain
# loops would take most of the time.
compile() {
    local own="-fsanitize-coverage=inline-8bit-counters,pc-table"
    [[ $1 == "$root"/csrc/* ]] && own="-fsanitize=fuzzer-no-link -Dmalloc=fuzz_malloc -Dcalloc=fuzz_calloc -Drealloc=fuzz_realloc"
    # shellcheck disable=SC2086
    local name=${1#"$root"/}
    clang $flags $sanitize $own -c "$1" -o "$work/objects/${name//\//_}.o"
}
export -f compile
find "$root/csrc" "$root/tests/fuzz" -name '*.c' ! -path '*/csrc/python/*' | xargs -P "$jobs" -I {} bash -euo pipefail -c 'compile {}'

mapfile -t core < <(find "$work/objects" -name '*.o' ! -name 'tests_fuzz_fuzz_*' ! -name '*_sqlite_*')
mapfile -t extension < <(find "$work/objects" -name '*_sqlite_*.o')
for target in "${targets[@]}"; do
    link=()
    [ "$target" = sql ] && link=("${extension[@]}" -lsqlite3)
    # shellcheck disable=SC2086
    clang $sanitize -fsanitize=fuzzer "$work/objects/tests_fuzz_fuzz_$target.c.o" "${core[@]}" "${link[@]}" -o "$work/fuzz_$target"
done

fuzz() {
    local status=0
    mkdir -p "$work/corpus/$1"
    "$work/fuzz_$1" -max_total_time="$2" -timeout=30 -rss_limit_mb=2500 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$work/findings/$1-" "$work/corpus/$1" "$root/tests/fuzz/seeds/$1" >"$work/$1.log" 2>&1 || status=$?
    echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$1.log") runs, status $status"
    [ "$status" = 0 ] || { grep -v -E '^#|NEW_FUNC|NEW_PC' "$work/$1.log" | tail -n 60; return 1; }
}
export -f fuzz
if ! printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I {} bash -euo pipefail -c "fuzz {} $seconds"; then
    echo "the inputs that fail are in $work/findings" >&2
    exit 1
fi
[ -n "${FUZZ_DIR:-}" ] || rm -rf "$work"
