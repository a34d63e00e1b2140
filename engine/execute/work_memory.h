// The work memory of a session: one block, laid out once, so that nothing is allocated while tokens
// are computed.
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
  std::array<Activations, kActTypes>
      forms;  ///< by type; None where not needed, F32 is a view of f32

  [[nodiscard]] float* row(std::size_t row) const { return f32 + row * width; }
  /// Rows [begin, end) as a product of that type reads them.
  [[nodiscard]] Activations view(ActType type, std::size_t begin, std::size_t end) const;
  /// Row `from` becomes row `to`, in every form.
  void copy_row(std::size_t from, std::size_t to) const;
};

/// Whether so many tokens of the input of a node's matrix are laid out once for all of its rows:
/// not where experts gather what they read.
bool lays_out(const Node& node, const Matrix& m, std::size_t n_tokens);

/// Tokens [begin, end) of quantized activations, in their memory.
Activations token_range(const Activations& acts, std::size_t begin, std::size_t end);
/// Columns [col, col + cols) of one token, whole blocks, in the memory of acts.
Activations column_range(const Activations& acts, std::size_t token, std::size_t col,
                         std::size_t cols);

/// Row i of one matrix of activations becomes row j of another of the same shape.
void copy_row(const Activations& from, std::size_t i, Activations& to, std::size_t j);

struct WorkShape {
  std::size_t n_batch = 0;     ///< tokens of a batch
  std::size_t logit_rows = 0;  ///< tokens whose logits are held at once
  unsigned threads = 0;
  std::size_t n_ctx = 0;  ///< positions of the longest sequence
};

/// Which experts the tokens of a batch take. A slot is one expert of one token; slots are ordered
/// by expert, then by token.
struct Routing {
  std::uint32_t* ids = nullptr;     ///< [n_batch][used], ascending
  float* weights = nullptr;         ///< [n_batch][used]
  float* scores = nullptr;          ///< [n_batch][n]: what decides, used up
  std::uint32_t* begin = nullptr;   ///< [n + 1]: first slot of an expert
  std::uint32_t* active = nullptr;  ///< experts that have slots, ascending
  std::size_t n_active = 0;
  std::uint32_t* token = nullptr;  ///< [n_batch × used]: of a slot
  float* slot_weight = nullptr;    ///< [n_batch × used]
};

/// Counts n of `all` parts as done. True for the last of them: then the count begins anew.
inline bool completes(std::atomic<std::uint32_t>& count, std::size_t n, std::size_t all) {
  if (count.fetch_add(static_cast<std::uint32_t>(n), std::memory_order_acq_rel) + n < all)
    return false;
  count.store(0, std::memory_order_relaxed);
  return true;
}

struct WorkMemory {
  std::vector<Value> values;     ///< by ValueId; values that are never needed together share memory
  std::vector<float*> ropes;     ///< by index in Graph::ropes: [n_batch][n_rot]
  std::byte* scratch = nullptr;  ///< scratch_stride bytes per thread
  std::size_t scratch_stride = 0;
  /// The input of the node that is computed, laid out (LayOut); null where no kernel wants that.
  std::byte* laid_out = nullptr;
  Routing routing;
  /// Room for states after segments of keys; without room each head's are computed by one thread.
  float* segment_states = nullptr;
  std::size_t segment_floats = 0;
  /// Countdowns of what is quantized when its last part is computed, and of what is merged then; 0
  /// between regions.
  std::atomic<std::uint32_t>* pending = nullptr;
  std::atomic<std::uint32_t>* pending_groups =
      nullptr;  ///< each in a cache line of its own: kCountdownStride apart

  Value& operator[](ValueId id) { return values[id]; }

  /// Bytes of the block that place() wants.
  static std::size_t bytes(const Graph& graph, const WorkShape& shape);
  /// Lays everything out in a zeroed, 64-byte aligned block.
  static WorkMemory place(const Graph& graph, const WorkShape& shape, std::byte* block);
};

/// Tokens of one expert that are computed together, and rows of its last matrix: what scratch is
/// made for.
inline constexpr std::size_t kExpertTokens = 128, kExpertRows = 256;
/// Tokens of one head whose products are computed together.
inline constexpr std::size_t kHeadTokens = 32;

inline constexpr std::size_t kCountdownStride = 16;
/// A thread's chunks in a region: enough to fill in for a late thread, few enough to cost nothing.
inline constexpr std::size_t kChunksPerThread = 6;

/// Largest batch (up to wanted) and number of logit rows for which the work memory stays within 64
/// MiB, if any does.
WorkShape fit_work(const Graph& graph, std::size_t wanted_batch, unsigned threads,
                   std::size_t n_ctx);

}  // namespace cria
