// The work memory of a session: one block, laid out once, so that nothing is allocated while tokens are
// computed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/graph.h"

namespace cria {

/// One intermediate value of a batch: floats, and the quantized forms that nodes need.
struct Value {
  float* f32 = nullptr;  ///< [n_tokens][width]
  std::size_t width = 0;
  std::array<Activations, kActTypes> forms;  ///< by type; None where not needed, F32 is a view of f32

  [[nodiscard]] float* row(std::size_t token) const { return f32 + token * width; }
  /// Tokens [begin, end) as a product of that type reads them.
  [[nodiscard]] Activations view(ActType type, std::size_t begin, std::size_t end) const;
};

/// A part of quantized activations: tokens [begin, end), columns [col, col+cols) of one token only if cols is
/// not the whole width.
Activations token_range(const Activations& acts, std::size_t begin, std::size_t end);
Activations column_range(const Activations& acts, std::size_t token, std::size_t col, std::size_t cols);

struct WorkShape {
  std::size_t n_batch = 0;     ///< tokens of a batch
  std::size_t logit_rows = 0;  ///< tokens whose logits are held at once
  unsigned threads = 0;
};

struct WorkMemory {
  Value values[kValueCount];
  float* rope = nullptr;         ///< [n_batch][n_rot]
  std::byte* scratch = nullptr;  ///< scratch_stride bytes per thread
  std::size_t scratch_stride = 0;
  std::atomic<std::uint32_t>* pending =
      nullptr;  ///< countdowns of what is quantized when its last part is computed; 0 between regions

  Value& operator[](ValueId id) { return values[static_cast<std::size_t>(id)]; }

  /// Bytes of the block that place() wants.
  static std::size_t bytes(const Graph& graph, const LlamaConfig& config, const WorkShape& shape);
  /// Lays everything out in a zeroed, 64-byte aligned block.
  static WorkMemory place(const Graph& graph, const LlamaConfig& config, const WorkShape& shape,
                          std::byte* block);
};

/// Largest batch (up to wanted) and number of logit rows for which the work memory stays within 64 MiB, if
/// any does.
WorkShape fit_work(const Graph& graph, const LlamaConfig& config, std::size_t wanted_batch, unsigned threads);

}  // namespace cria
