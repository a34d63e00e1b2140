#!/bin/sh
# code_of_one_set.sh OBJECT...: functions that the linker merges (inline functions, templates) must not stand in the objects of two
# instruction sets, nor in one's and in the baseline's: it keeps any one of them, whose instructions a machine may not have.
# Objects of a set: isa/SET.cpp.o, isa/SET_*.cpp.o. avx512intel has the flags of avx512vnni.
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
