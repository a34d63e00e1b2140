#!/bin/sh
# Runs clang-tidy, about ten minutes on two cores. Arguments: files (default: all sources).
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"
need clang-tidy
cmake --preset release -B build/tidy -DCRIA_PCH=OFF >&2 </dev/null
[ $# -gt 0 ] || set -- $(git ls-files 'model/*.cpp' 'tokenizer/*.cpp' 'engine/*.cpp' 'tools/*.cpp' 'kernels/*.cpp' \
  ':!*_fuzz.cpp' ':!kernels/isa/*.cpp' )
printf '%s\n' "$@" | xargs -P 2 -n 2 clang-tidy -p build/tidy --quiet
