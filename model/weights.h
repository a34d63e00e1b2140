// The tensors of a model by name, shapes and types checked. Views into the GgufFile.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/gguf/gguf.h"

namespace cria {

/// The tensors of a model that no file holds yet: made up, without data, when a description asks
/// for them.
class WantedTensors {
 public:
  struct Wanted {
    std::string name;
    std::vector<std::uint64_t> shape;
    bool matrix = false;
  };

  /// Returns the shape of an optional tensor (may be empty), or nullopt if it must not exist.
  using Known = std::function<std::optional<std::vector<std::uint64_t>>(std::string_view name)>;

  explicit WantedTensors(Known known) : known_(std::move(known)) {}

  [[nodiscard]] std::optional<std::vector<std::uint64_t>> known(std::string_view name) const {
    return known_(name);
  }
  const TensorView& add(const std::string& name, const std::vector<std::uint64_t>& shape,
                        bool matrix);
  [[nodiscard]] const std::deque<Wanted>& list() const {
    return list_;
  }  ///< in the order of asking

 private:
  Known known_;
  std::deque<Wanted> list_;
  std::deque<TensorView> views_;
};

/// Finds tensors by name, checks each, and remembers which of the file's tensors have a use. Every
/// function that finds throws Error naming the tensor at fault: missing, wrong shape, a type that
/// cannot be a weight.
class Weights {
 public:
  using Shape = std::vector<std::uint64_t>;

  /// The file outlives this. Throws Error if it has no tensors. wanted: instead of being found
  /// there, tensors are noted.
  Weights(const GgufFile& file, std::uint32_t n_layers, WantedTensors* wanted = nullptr);

  [[nodiscard]] bool has(const std::string& name) const {
    return wanted_ != nullptr ? wanted_->known(name).has_value() : file_.tensor(name) != nullptr;
  }
  /// [cols, rows]; a single row may lack the second dimension.
  const TensorView& matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows);
  /// n matrices one after the other: [cols, rows, n]
  const TensorView& matrices(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                             std::uint64_t n);
  /// F32 [length]
  const TensorView& vector(const std::string& name, std::uint64_t length);
  const TensorView& vectors(const std::string& name, const Shape& shape);  ///< F32
  /// F32 with as many values as this shape has, whatever its dimensions of 1: writers differ.
  const TensorView& values(const std::string& name, const Shape& shape);
  /// Returns the scales of a matrix with n·rows rows ("attn_q.scale" or "attn_q.weight.scale" for
  /// "attn_q.weight"), or nullopt. The tensor is F32 with one dimension: one scale for all, one for
  /// each of the n, or one per row.
  std::optional<TensorView> scale(const std::string& matrix, std::uint64_t rows,
                                  std::uint64_t n = 1);
  /// F32 [length] of finite numbers above 0, by which RoPE frequencies are divided.
  std::vector<float> factors(const std::string& name, std::uint64_t length);
  /// A tensor's shape, without checking and using it; nothing if it is missing.
  [[nodiscard]] std::optional<Shape> shape_of(const std::string& name) const;

  /// Tensors whose names begin so have no use here, and that is right: one note, or none if it is
  /// empty.
  void ignore(const std::string& prefix, const std::string& why);

  /// A warning, of which one is enough.
  void note(const std::string& text);

  /// Returns warnings about unused tensors. Throws Error for tensors that contradict the metadata:
  /// biases and layers that should not exist.
  [[nodiscard]] std::vector<std::string> finish() const;

  /// Names of the unused tensors, including ignored ones.
  [[nodiscard]] std::set<std::string, std::less<>> unused() const;

  [[noreturn]] void fail(const std::string& message, std::string_view tensor) const;

 private:
  const TensorView& find(const std::string& name, const Shape& shape, bool matrix);
  void refuse_contradiction(std::string_view name) const;

  const GgufFile& file_;
  std::uint32_t n_layers_;
  WantedTensors* wanted_;
  std::unordered_set<std::string_view> used_, ignored_;
  std::vector<std::string> notes_;
};

/// Rows [begin, begin + rows) of a matrix as one of its own. `matrix` counts all its rows
/// (shape[1…]).
TensorView rows_of(const TensorView& matrix, std::uint64_t begin, std::uint64_t rows);

}  // namespace cria
