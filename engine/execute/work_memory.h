// The work memory of an engine: one block, placed once, so that computing tokens allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace cria {

/// One intermediate value of a batch: floats, and the quantized forms that nodes need.
struct Value {
  float* f32 = nullptr;  ///< [rows][width]
  std::size_t width = 0;
  std::array<Activations, kActTypes> forms;  ///< by type; None if not needed, F32 views f32

  [[nodiscard]] float* row(std::size_t row) const { return f32 + row * width; }
  /// Returns rows [begin, end) as a product of that type reads them.
  [[nodiscard]] Activations view(ActType type, std::size_t begin, std::size_t end) const;
  /// Copies row `from` to row `to`, in every form.
  void copy_row(std::size_t from, std::size_t to) const;
  /// Makes quantized forms of columns of rows from their floats. cols: whole blocks.
  void quantize(const KernelSet& kernels, ActTypes types, UnitRange rows, UnitRange cols) const;
};

/// Returns true if n_tokens of the input of a node's matrix are packed once for all rows. Inputs of
/// experts are gathered instead.
bool packs_input(const Node& node, const Matrix& m, std::size_t n_tokens);

/// Returns the bytes of n_tokens of input, in any form that the node's matrices need.
std::size_t input_bytes(const Node& node, std::size_t n_tokens);

/// Returns tokens [begin, end) of quantized activations, in their memory.
Activations token_range(const Activations& acts, std::size_t begin, std::size_t end);
/// Returns columns [col, col + cols) of one token, whole blocks, in the memory of acts.
Activations column_range(const Activations& acts, std::size_t token, std::size_t col,
                         std::size_t cols);
/// Places activations of any type, F32 included, in memory.
Activations place_activations(ActType type, std::size_t n_tokens, std::size_t cols,
                              std::byte* memory);
/// Copies row i of activations to row j of others of the same shape.
void copy_row(const Activations& from, std::size_t i, Activations& to, std::size_t j);

struct WorkShape {
  std::size_t n_batch = 0;     ///< tokens of a batch
  std::size_t logit_rows = 0;  ///< tokens whose logits are kept at once
  unsigned threads = 0;
  std::size_t n_ctx = 0;  ///< positions of the longest sequence
};

/// The experts that the tokens of a batch take. A slot is one expert of one token; slots are
/// ordered by expert, then by token.
struct Routing {
  std::uint32_t* ids = nullptr;     ///< [n_batch][used], ascending
  float* weights = nullptr;         ///< [n_batch][used]
  float* scores = nullptr;          ///< [n_batch][n]: decide the choice, then overwritten
  std::uint32_t* begin = nullptr;   ///< [n + 1]: first slot of an expert
  std::uint32_t* active = nullptr;  ///< experts that have slots, ascending
  std::size_t n_active = 0;
  std::uint32_t* token = nullptr;  ///< by slot
  float* slot_weight = nullptr;    ///< by slot
};

/// Counts n of `all` parts as done. Returns true for the last, and then resets the count.
inline bool completes(std::atomic<std::uint32_t>& count, std::size_t n, std::size_t all) {
  if (count.fetch_add(static_cast<std::uint32_t>(n), std::memory_order_acq_rel) + n < all)
    return false;
  count.store(0, std::memory_order_relaxed);
  return true;
}

struct WorkMemory {
  std::vector<Value> values;     ///< by ValueId; values not needed together share memory
  std::vector<float*> ropes;     ///< by index in Graph::ropes: [n_batch][n_rot]
  std::byte* scratch = nullptr;  ///< scratch_stride bytes per thread
  std::size_t scratch_stride = 0;
  /// The packed input (PackActivations) of the node that is computed; null if no kernel uses it.
  std::byte* packed = nullptr;
  Routing routing;
  /// States after segments of keys. If they do not fit, one thread computes all keys of a head.
  float* segment_states = nullptr;
  std::size_t segment_floats = 0;
  /// Countdowns to the last part of what is then quantized (pending) or merged (pending_groups); 0
  /// between regions.
  std::atomic<std::uint32_t>* pending = nullptr;
  /// Each in a cache line of its own, kCountdownStride apart.
  std::atomic<std::uint32_t>* pending_groups = nullptr;

  Value& operator[](ValueId id) { return values[id]; }

  /// Returns the bytes that place() needs.
  static std::size_t bytes(const Graph& graph, const WorkShape& shape);
  /// Places everything in a zeroed, 64-byte aligned block.
  static WorkMemory place(const Graph& graph, const WorkShape& shape, std::byte* block);
};

inline constexpr std::size_t kCountdownStride = 16;
/// Chunks per thread in a region: enough to help a late thread, few enough to cost nothing.
inline constexpr std::size_t kChunksPerThread = 6;

/// Returns the largest batch (up to wanted) and number of logit rows for which the work memory
/// stays within 64 MiB, if any does; `least` otherwise.
WorkShape fit_work(const Graph& graph, std::size_t wanted_batch, unsigned threads,
                   std::size_t n_ctx, std::size_t least = 1);

}  // namespace cria
