// One tag type per instruction set: the template argument of every kernel. A kernel's symbols carry
// the tag, so that copies compiled with different flags never meet in the linker.
#pragma once

#include <string_view>
#include <xsimd/xsimd.hpp>

namespace cria {

/// Plain C++, no vectors: defines the bits.
struct ScalarIsa {
  static constexpr std::string_view name = "scalar";
};

/// AVX2, FMA, F16C.
struct Avx2 {
  using Arch = xsimd::fma3<xsimd::avx2>;
  static constexpr std::string_view name = "avx2";
};

/// AVX2 as above, with dot products of bytes and of int16 (Alder Lake, Zen 5 and later).
struct AvxVnni {
  static constexpr std::string_view name = "avxvnni";
};

/// AVX-512 F, BW, CD, DQ, VL, VNNI, VBMI, BITALG (Ice Lake, Zen 4 and later).
struct Avx512 {
  using Arch = xsimd::avx512bw;
  static constexpr std::string_view name = "avx512vnni";
};

/// The same, with n registers of rows side by side (simd/avx512_parts.h).
template <int n>
struct Avx512Parts {};

/// AVX-512 as above, with the dot product of bfloat16 pairs (Zen 4, Sapphire Rapids and later): for
/// BF16 weights only, see matmul/bf16.h.
struct Avx512Bf16 {
  using Arch = xsimd::avx512bw;
};

/// AVX-512 as above, with a GEMM for processors on which all arithmetic shares two ports (Intel's).
struct Avx512Intel {
  static constexpr std::string_view name = "avx512intel";
};
/// The same kernels, registered a second time ahead of avx512vnni for Intel's processors, so that
/// they are preferred there; Avx512Intel stays selectable by its name elsewhere.
struct Avx512OnIntel {};

/// AVX-512 as above, with AMX tiles for the GEMM (Sapphire Rapids and later).
struct Amx {
  static constexpr std::string_view name = "amx";
};

/// AArch64 Advanced SIMD with the dot product instructions.
struct Neon {
  using Arch = xsimd::neon64;
  static constexpr std::string_view name = "neon";
};

}  // namespace cria
