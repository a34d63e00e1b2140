#!/bin/sh
# Checks that the C interface may grow. Compares libcria.so with a library whose structs have one
# more member at the end: abidiff must accept it, and old and new programs must run with either
# library. abidiff must reject a member inserted in the middle. Uses build/release; compiles only
# engine/c.
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"
# shellcheck disable=SC2086
need $CRIA_PACKAGES abigail-tools
cmake --preset release >&2 </dev/null
cmake --build build/release --target cria_library >&2 </dev/null
version=$(sed -n 's/^project(cria VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME SED-SCRIPT [FILE…]: edits the header and builds a library; other files come from "old".
library() {
  name=$1 change=$2
  shift 2
  mkdir -p "$work/$name/engine" "$work/$name/include/cria"
  cp -r engine/c "$work/$name/engine/"
  sed -i "$change" "$work/$name/engine/c/cria.h"
  cp "$work/$name/engine/c/cria.h" "$work/$name/include/cria/"
  [ "$name" = old ] || cp "$work"/old/*.o "$work/$name/"
  for file; do
    c++ -std=c++20 -g -O1 -fPIC -march=x86-64-v2 -ffp-contract=off -DCRIA_VERSION="\"$version\"" -I"$work/$name" -I. \
      -c "$work/$name/engine/c/$file.cpp" -o "$work/$name/$file.o"
  done
  c++ -shared -Wl,-soname,libcria.so.0 -Wl,--version-script=engine/c/exports.map "$work/$name"/*.o build/release/libcria.a \
    -ltbb -lpcre2-8 -lunistring -o "$work/$name/libcria.so.0"
  ln -s libcria.so.0 "$work/$name/libcria.so"
}
# HEADER LIBRARY: runs the example chat.c, compiled with one header, with the other library.
talk() {
  cc -std=c11 -I"$work/$1/include" tests/consumer/chat.c -o "$work/chat" -L"$work/$1" -lcria -lpthread
  echo "What is the capital of Norway?" | LD_LIBRARY_PATH=$work/$2 "$work/chat" data/cria-demo-Q8_0.gguf >"$work/answer"
  grep -q Oslo "$work/answer" && echo "a program with the header of \"$1\" runs with the library \"$2\""
}

all=$(cd engine/c && ls ./*.cpp | sed 's/\.cpp$//')
# shellcheck disable=SC2086
library old '' $all
grown=$(sed -n 's/^} \(cria_[a-z_]*\);$/\1/p' engine/c/cria.h | while read -r type; do
  if sed -n "/^typedef struct {/h; /^typedef struct {/!H; /^} $type;/{x;p;}" engine/c/cria.h | grep -q '^  size_t size;'; then
    echo "$type"
  fi
done)
member='uint64_t added[2];'
script=$(for type in $grown; do printf 's|^} %s;$|  %s\\n&|\n' "$type" "$member"; done)
# shellcheck disable=SC2086
library grown "$script" $all
# shellcheck disable=SC2086
library broken "s|^  size_t n_messages;|  $member\\n&|" $all

for type in $grown; do
  printf '[suppress_type]\n  name = %s\n  type_kind = struct\n  has_data_member_inserted_between = {end, end}\n' "$type"
done >"$work/may_grow"
echo "grown structs:" $grown
abidiff --suppressions "$work/may_grow" "$work/old/libcria.so.0" "$work/grown/libcria.so.0"
echo "abidiff accepts the grown structs"
if abidiff --suppressions "$work/may_grow" "$work/old/libcria.so.0" "$work/broken/libcria.so.0" >"$work/broken.txt"; then
  echo "abidiff accepts an inserted member" >&2
  exit 1
fi
echo "abidiff rejects an inserted member: $(grep -m 1 "data member" "$work/broken.txt")"
talk old grown
talk grown old
