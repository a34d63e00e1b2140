// The namespace of code that is compiled for one instruction set.
//
// Headers here are compiled several times, with the flags of each instruction set (isa/NAME*.cpp).
// The linker keeps one copy of an inline function or template of a given name, and if it kept one
// with AVX-512 instructions for the baseline, other processors would crash. So all of it stands in
// `inline namespace CRIA_ISA_NAMESPACE` of cria,
// and CMakeLists.txt defines CRIA_ISA_NAMESPACE as the name of the set, for each file of the set.
// Plain `namespace cria` holds only what crosses sets: kernels.h and what it includes,
// attention/attention.h, isa/instruction_set.h, tables. Inline functions there are always_inline.
#pragma once

#ifndef CRIA_ISA_NAMESPACE
#define CRIA_ISA_NAMESPACE baseline
#endif
