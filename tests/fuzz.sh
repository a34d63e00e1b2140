#!/bin/sh
# usage: fuzz.sh [--coverage] [SECONDS [TARGET…]]
# Builds the fuzzer, writes the seeds, and runs each target (default: all) for SECONDS (default 60),
# two at a time. Prints executions, edges and corpus size; fails on crashes, hangs and excessive
# memory. Corpora are kept in $CRIA_CORPUS (default build/corpus), findings in build/findings.
# --coverage: prints which lines of model/ and tokenizer/ the corpora reach, without fuzzing.
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"
task=fuzz
[ "${1:-}" != --coverage ] || { task=coverage; shift; }
seconds=${1:-60}
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086
need $CRIA_PACKAGES clang libclang-rt-dev llvm
cmake --preset fuzz >&2 </dev/null
cmake --build build/fuzz --target cria_fuzz >&2 </dev/null

fuzzer=$PWD/build/fuzz/tests/fuzz/cria_fuzz
export LLVM_PROFILE_FILE=/dev/null
corpus=${CRIA_CORPUS:-$PWD/build/corpus}
findings=$PWD/build/findings
mkdir -p "$corpus" "$findings"
[ $# -gt 0 ] || set -- $("$fuzzer" --list)

# TARGET: makes its seeds, dictionary and corpus directory.
prepare() {
  mkdir -p "$corpus/$1"
  "$fuzzer" --target="$1" --seeds="$corpus/seeds/$1"
}

# TARGET: runs it and prints one line. One allocation may have 100 MiB, as in the program. The
# fuzzer itself limits processor time; libFuzzer's time limit catches deadlocks.
fuzz() {
  prepare "$1"
  log=$findings/$1.log
  status=0
  "$fuzzer" --target="$1" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=2048 -malloc_limit_mb=100 -max_len=81920 \
    -dict="$corpus/seeds/$1.dict" -artifact_prefix="$findings/$1-" -print_final_stats=1 -use_value_profile=1 \
    "$corpus/$1" "$corpus/seeds/$1" >"$log" 2>&1 </dev/null || status=$?
  awk -v name="$1" -v status=$status '
    / cov: / { for (i = 1; i < NF; ++i) { if ($i == "cov:") edges = $(i + 1); if ($i == "corp:") corpus = $(i + 1) } }
    /^stat::number_of_executed_units/ { runs = $2 }
    /^stat::average_exec_per_sec/ { rate = $2 }
    END { printf "%-20s %10d executions %7d/s %6d edges, corpus %s%s\n", name, runs, rate, edges, corpus, status ? "  FAILED" : "" }' "$log"
  [ $status -eq 0 ] || { sed -n '/ERROR\|SUMMARY\|terminate\|what():\|more than\|Test unit/p' "$log" | sed 's/^/  /'; return 1; }
}

coverage() {
  profiles=
  for target; do
    prepare "$target"
    LLVM_PROFILE_FILE=$findings/$target.profraw "$fuzzer" --target="$target" -runs=0 -artifact_prefix="$findings/$target-" \
      "$corpus/$target" "$corpus/seeds/$target" \
      >"$findings/$target.log" 2>&1 </dev/null || { echo "$target failed" >&2; return 1; }
    profiles="$profiles $findings/$target.profraw"
  done
  # shellcheck disable=SC2086
  llvm-profdata merge -o "$findings/all.profdata" $profiles
  llvm-cov report "$fuzzer" -instr-profile="$findings/all.profdata" |
    awk '$1 ~ /^(.*\/)?(model|tokenizer)\// { printf "%-42s %5d lines %4d not reached %8s\n", $1, $8, $9, $10; lines += $8; missed += $9 }
      END { printf "%-42s %5d lines %4d not reached %7.2f%%\n", "all", lines, missed, 100 * (lines - missed) / lines }'
}

if [ $task = coverage ]; then
  coverage "$@"
  exit
fi
failed=0
while [ $# -gt 0 ]; do
  fuzz "$1" & first=$!
  second=
  if [ $# -gt 1 ]; then fuzz "$2" & second=$!; shift; fi
  shift
  wait $first || failed=1
  [ -z "$second" ] || wait "$second" || failed=1
done
exit $failed
