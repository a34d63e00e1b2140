#!/bin/sh
# usage: perplexity_isa.sh CRIA TEXT WINDOWS MODEL.gguf…
# Perplexity by every instruction set that can run here: prints it, fails where one's is not the scalar kernels', which define
# the bits. Those are slow: one to four seconds of CPU for a window of the demo model.
set -eu
[ $# -ge 4 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
cria=$1 text=$2 windows=$3
shift 3
sets=$("$cria" --version | sed 's/.*runs on \([^;)]*\).*/\1/; s/,//g')
ppl() { CRIA_ISA=$1 "$cria" perplexity -m "$2" -f "$text" --chunks "$windows" --json | sed -n 's/^ *"ppl": *\([^,]*\).*/\1/p'; }
failed=0
for model; do
  scalar=$(ppl scalar "$model")
  [ -n "$scalar" ] || failed=1
  for set in $sets; do
    value=$(ppl "$set" "$model")
    verdict=equal
    [ "$value" = "$scalar" ] || { verdict="scalar: $scalar" failed=1; }
    printf '%-28s %-12s %s  %s\n' "$(basename "$model")" "$set" "$value" "$verdict"
  done
done
exit $failed
