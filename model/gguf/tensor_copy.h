// Inside the room: tensor data from one file into another, byte for byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "model/gguf/gguf.h"
#include "model/gguf/writer.h"

namespace cria {

/// Called with the bytes of tensor data written so far; false stops.
using OnBytes = std::function<bool(std::uint64_t bytes)>;

/// The data of tensors one after the other, with a look at on_bytes after each piece. File and
/// on_bytes must outlive it.
class TensorCopy {
 public:
  TensorCopy(const GgufFile& file, const OnBytes& on_bytes) : file_(file), on_bytes_(on_bytes) {}

  /// False if on_bytes stopped it. Throws Error if the disk refuses.
  bool tensor(const TensorView& tensor, GgufWriter& writer) {
    constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
    file_.prefetch(tensor);
    const std::span<const std::byte> data(tensor.data, tensor.bytes);
    for (std::size_t at = 0; at < data.size(); at += kPieceBytes) {
      const auto piece = data.subspan(at, std::min(kPieceBytes, data.size() - at));
      writer.write(piece);
      bytes_ += piece.size();
      if (on_bytes_ && !on_bytes_(bytes_)) return false;
    }
    file_.done_with(tensor);
    return true;
  }

 private:
  const GgufFile& file_;
  const OnBytes& on_bytes_;
  std::uint64_t bytes_ = 0;
};

}  // namespace cria
