// Encoders of IQ2_K … IQ6_K: d·s·value, an integer s and one of two tables of values per 16.
#pragma once

#include "kernels/encode/symmetric.h"
#include "kernels/formats/ik.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockIQ2_K> = {
    {0.7F, 1.8F, 6}, {0.6F, 2.4F, 12}, 2, 2, 4};
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockIQ3_K> = {
    {0.8F, 1.4F, 5}, {0.7F, 1.7F, 8}, 2, 2, 2};
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockIQ4_K> = kSymmetricEffort<BlockIQ4_XS>;
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockIQ5_K> = {
    {0.9F, 1.1F, 3}, {0.86F, 1.15F, 4}, 1, 1, 0};
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockIQ6_K> = {
    {0.94F, 1.04F, 2}, {0.93F, 1.05F, 3}, 1, 1, 0};

/// The types of formats/ik.h with d in the block.
template <class Isa, class Block, ScaleRange range>
inline constexpr EncodeFn kTableSuper =
    kSymmetricSuper<Isa, Block, TableGrid<Isa, Block::kValues>, 16, range,
                    TableGrid<Isa, Block::kValues, Block::kShift>>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ2_K> = kTableSuper<Isa, BlockIQ2_K, kFourBits>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ3_K> =
    kTableSuper<Isa, BlockIQ3_K, ScaleRange{-31, 31, 2}>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ4_K> = kTableSuper<Isa, BlockIQ4_K, kSixBits>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ5_K> = kTableSuper<Isa, BlockIQ5_K, kSixBits>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ6_K> = kTableSuper<Isa, BlockIQ6_K, kEightBits>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
