#!/bin/sh
# hardening.sh PROGRAM: whether the binary has what cmake/CriaHardening.cmake asks for.
program=$1
failed=0
# expect WHAT PATTERN FILE: a line that matches; refuse: none.
expect() { grep -qE "$2" "$3" || { echo "missing: $1"; failed=1; }; }
refuse() { ! grep -qE "$2" "$3" || { echo "found: $1"; failed=1; }; }
listing=$(mktemp) && trap 'rm -f "$listing"' EXIT
export LC_ALL=C

readelf -hlW "$program" >"$listing" || exit 1
expect "position-independent executable" 'Type:[[:space:]]+DYN' "$listing"
expect "RELRO" 'GNU_RELRO' "$listing"
expect "a stack that is not executable" 'GNU_STACK.* RW +0x' "$listing"
refuse "memory that is writable and executable" 'LOAD.* RWE ' "$listing"

readelf -dW "$program" >"$listing" || exit 1
expect "immediate binding (full RELRO)" '\(FLAGS_1\).*NOW' "$listing"
expect "the flag of such executables" '\(FLAGS_1\).*PIE' "$listing"
refuse "relocations of code" 'TEXTREL' "$listing"
refuse "a library path of the build machine" 'R(UN)?PATH' "$listing"

readelf -sW --dyn-syms "$program" >"$listing" || exit 1
expect "the stack protector" '__stack_chk_fail' "$listing"
expect "fortified functions" '__(memcpy|read|snprintf|vsnprintf|fprintf|memmove|strcpy)_chk' "$listing"
expect "assertions of the C++ library" 'glibcxx_assert' "$listing"

case $(uname -m) in x86_64)
  objdump -d --disassemble=main "$program" >"$listing" || exit 1
  expect "control-flow protection" 'endbr64' "$listing" ;;
esac
exit $failed
