#!/bin/sh
# code_of_one_set.sh OBJECT...: checks that no mergeable function is in the objects of two
# instruction sets, or of a set and the baseline. The linker would keep one copy, whose instructions
# a machine may lack. cria's own functions are in a namespace per set; templates of the standard
# library cannot be, so they must be inlined. Objects of a set: isa/SET.cpp.o, isa/SET_*.cpp.o.
export LC_ALL=C
list=$(mktemp) && trap 'rm -f "$list"' EXIT
nm -A -C "$@" >"$list" || exit 1
shared=$(sed -nE 's/^([^:]*):[0-9a-f]+ W (.*)$/\1 \2/p' "$list" | awk '{
  set = "baseline"
  if (match($1, "/isa/(amx|avx|neon|scalar)[a-z0-9]*")) { set = substr($1, RSTART + 5, RLENGTH - 5); sub("intel", "vnni", set) }
  sub("[^ ]* ", "")
  if (!(($0, set) in seen)) { seen[$0, set] = 1; sets[$0] = sets[$0] " " set; n[$0]++ }
  functions++
} END {
  if (functions == 0) print "no functions in these objects"
  for (f in n) if (n[f] > 1) print f ":" sets[f]
}')
[ -z "$shared" ] || { echo "$shared"; exit 1; }
