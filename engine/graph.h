// The compute graph: a flat list of nodes, built once per model, each one parallel region. It can be printed,
// timed and observed by name. What is fused is decided while it is built (layer.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "model/weights.h"

namespace cria {

/// What a node computes for every token.
enum class Op : std::uint8_t {
  Embed,       ///< out = row of token_embd; the batch's RoPE table on the side
  RmsNorm,     ///< out = in·rms(in)·weight, also as quantized activations
  QkvRope,     ///< q, k, v = W·in + bias; q and k rotated; k and v into the cache
  Attention,   ///< out = softmax(q·K)·V, also as quantized activations
  MatMulAdd,   ///< out += W·in + bias
  GateUpSilu,  ///< out = silu(gate·in)·(up·in), also as quantized activations
  MatMul,      ///< out = W·in
};
std::string_view name(Op op) noexcept;

/// The intermediate values that nodes read and write: rows of floats, one per token.
enum class ValueId : std::uint8_t { None, X, Norm, Q, K, V, Attn, Ffn, Up, Logits };
inline constexpr std::size_t kValueCount = 10;
std::string_view name(ValueId value) noexcept;

/// A set of activation types.
class ActTypes {
 public:
  constexpr void add(ActType type) { bits_ |= bit(type); }
  constexpr void add(ActTypes other) { bits_ |= other.bits_; }
  [[nodiscard]] constexpr bool has(ActType type) const { return (bits_ & bit(type)) != 0; }

 private:
  static constexpr std::uint8_t bit(ActType type) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(type));
  }
  std::uint8_t bits_ = 0;
};

/// A weight matrix with the kernel that multiplies by it.
struct Matrix {
  const TensorView* weight = nullptr;
  const TensorView* bias = nullptr;  ///< F32 [rows], or null
  MatMulKernel kernel;
};

struct Node {
  Op op = Op::MatMul;
  std::string name;         ///< "blk.3.attn_norm"
  std::uint32_t layer = 0;  ///< of QkvRope and Attention: whose cache
  ValueId in = ValueId::None, out = ValueId::None;
  std::vector<Matrix>
      matrices;  ///< QkvRope: q, k, v; GateUpSilu: gate, up; Embed: token_embd (no kernel); else at most one
  const TensorView* norm = nullptr;  ///< RmsNorm: its weight
  ActTypes acts;                     ///< the quantized forms in which out is needed

  [[nodiscard]] std::uint64_t macs() const;  ///< multiply-adds per token in matrices
  [[nodiscard]] std::uint64_t weight_bytes()
      const;  ///< bytes of matrices read, once per batch (Embed: nothing to speak of)
  [[nodiscard]] std::string to_string() const;  ///< one line: name, op, operands
};

struct Graph {
  std::vector<Node> nodes;
  std::array<std::size_t, kValueCount> width{};  ///< floats per token of each value
  std::array<ActTypes, kValueCount> acts{};      ///< every form in which some node needs it
  std::size_t first_sparse =
      0;  ///< from this node on (the last layer's attention) only tokens whose logits are wanted are computed

  /// Throws Error naming tensor and type if kernels have no product for it.
  static Graph build(const LlamaConfig& config, const LlamaWeights& weights, const KernelSet& kernels);
  [[nodiscard]] std::string to_string() const;  ///< one line per node
};

}  // namespace cria
