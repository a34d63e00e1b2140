// One scalar decoder per quantized weight type: private to the dtype table, which hands them out by type.
#pragma once

#include "kernels/decode.h"

namespace cria {

// decode_blocks32.cpp
void decode_q4_0(const std::byte* block, Decoded32& out);
void decode_q4_1(const std::byte* block, Decoded32& out);
void decode_q5_0(const std::byte* block, Decoded32& out);
void decode_q5_1(const std::byte* block, Decoded32& out);
void decode_q8_0(const std::byte* block, Decoded32& out);
void decode_iq4_nl(const std::byte* block, Decoded32& out);

// decode_k.cpp
void decode_q2_k(const std::byte* block, Decoded256& out);
void decode_q3_k(const std::byte* block, Decoded256& out);
void decode_q4_k(const std::byte* block, Decoded256& out);
void decode_q5_k(const std::byte* block, Decoded256& out);
void decode_q6_k(const std::byte* block, Decoded256& out);

// decode_iq.cpp
void decode_iq1_s(const std::byte* block, Decoded256& out);
void decode_iq1_m(const std::byte* block, Decoded256& out);
void decode_iq2_xxs(const std::byte* block, Decoded256& out);
void decode_iq2_xs(const std::byte* block, Decoded256& out);
void decode_iq2_s(const std::byte* block, Decoded256& out);
void decode_iq3_xxs(const std::byte* block, Decoded256& out);
void decode_iq3_s(const std::byte* block, Decoded256& out);
void decode_iq4_xs(const std::byte* block, Decoded256& out);

// decode_ternary.cpp
void decode_tq1_0(const std::byte* block, Decoded256& out);
void decode_tq2_0(const std::byte* block, Decoded256& out);

}  // namespace cria
