#!/bin/sh
# usage: perplexity_isa.sh CRIA TEXT WINDOWS MODEL.gguf…
# Perplexity by the machine's instruction set against the scalar kernels, which define the bits: prints both,
# fails where they differ by more than 0.02 %. Scalar kernels are slow: one to four seconds of CPU for a
# window of the demo model, so not part of the test suite.
set -eu
[ $# -ge 4 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
cria=$1 text=$2 windows=$3
shift 3
ppl() { "$cria" perplexity -m "$1" -f "$text" --chunks "$windows" --json | sed -n 's/^ *"ppl": *\([^,]*\).*/\1/p'; }
failed=0
for model; do
  fast=$(ppl "$model")
  scalar=$(CRIA_ISA=scalar ppl "$model")
  awk -v name="$(basename "$model")" -v fast="$fast" -v scalar="$scalar" 'BEGIN {
    share = fast / scalar - 1; good = share * share <= 0.0002 * 0.0002
    printf "%-28s %s  scalar %s  %s\n", name, fast, scalar, fast == scalar ? "equal" : sprintf("%+.5f %%", 100 * share)
    exit !good }' || failed=1
done
exit $failed
