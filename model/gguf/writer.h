// Writes GGUF version 3 files: metadata of every value type, tensor data as a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/formats/dtype.h"
#include "model/file/binary_file.h"
#include "model/gguf/gguf.h"

namespace cria {

struct GgufData;

/// An array of values of one type: those in `values`, or `copied` ones as they stand in a file
/// (version 3).
struct GgufArray {
  GgufType element = GgufType::U8;
  std::vector<GgufData> values;
  std::uint64_t copied = 0;
  std::string payload{};  ///< the copied elements, without the array's type and length

  /// From numbers or strings: GgufArray::of(std::vector<float>{…}).
  template <typename T>
  static GgufArray of(const std::vector<T>& values);
};

/// A metadata value in memory; the alternatives stand in the order of GgufType.
using GgufDataVariant = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                                     std::uint32_t, std::int32_t, float, bool, std::string,
                                     GgufArray, std::uint64_t, std::int64_t, double>;
struct GgufData : GgufDataVariant {
  using GgufDataVariant::GgufDataVariant;
  [[nodiscard]] GgufType type() const noexcept { return static_cast<GgufType>(index()); }
};

inline bool operator==(const GgufArray& a, const GgufArray& b) {
  return a.element == b.element && a.values == b.values && a.copied == b.copied &&
         a.payload == b.payload;
}

template <typename T>
GgufArray GgufArray::of(const std::vector<T>& values) {
  GgufArray array{GgufData(T()).type(), {}};
  array.values.reserve(values.size());
  for (const auto& value : values) array.values.emplace_back(static_cast<T>(value));
  return array;
}

/// The number or bool of this type at data.
GgufData scalar_value(GgufType type, const std::byte* data);
/// Copies a value of an open file, to copy metadata into another file. An array needs about its
/// size in the file.
GgufData copy_value(const GgufFile& file, const GgufValue& value);

/// The order of calls: set() and declare() for everything, begin(), write() for the data of every
/// tensor in the order of declaration, finish(). The target is replaced whole or not at all
/// (OutputFile). Throws Error if the disk refuses.
class GgufWriter {
 public:
  /// alignment: a power of two from 8 to 1 MiB; written as general.alignment unless it is the
  /// default.
  explicit GgufWriter(std::string path, std::uint64_t alignment = 32);
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  /// Sets a key, or replaces its value if it is set already.
  void set(std::string_view key, GgufData value);
  /// Announces a tensor. Throws Error if the shape does not fit the type.
  void declare(std::string_view name, DType dtype, std::vector<std::uint64_t> shape);

  /// Throws Error if the disk has no space for the whole file, or the target cannot be replaced.
  void begin();
  /// Writes the next bytes of tensor data, in pieces of any size that do not cross a tensor's end;
  /// adds the padding.
  void write(std::span<const std::byte> bytes);
  /// complete() and replace(), as an OutputFile's; the first throws Error if data is missing.
  void finish() { complete(), replace(); }
  void complete();
  void replace();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The file so far, without data: keys and declared tensors (GgufFile::from_bytes,
  /// metadata_only).
  [[nodiscard]] std::string metadata() const;
  /// Bytes of the finished file; known once everything is declared.
  [[nodiscard]] std::uint64_t file_bytes() const;

 private:
  struct Declared {
    std::string name;
    DType dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t bytes;
  };
  /// Calls put(bytes) for each part of what stands before the data.
  template <class Put>
  void header(Put&& put) const;
  void pad(std::uint64_t written);

  std::string path_;
  std::uint64_t alignment_;
  std::vector<std::pair<std::string, GgufData>> keys_;
  std::unordered_map<std::string, std::size_t> key_index_;
  std::vector<Declared> tensors_;
  std::optional<OutputFile> file_;  // once begun
  std::size_t current_ = 0;         // tensor being written
  std::uint64_t in_current_ = 0;    // bytes of it written
};

/// Checks all files of the input.
void require_other_file(const GgufFile& input, const std::string& target);

}  // namespace cria
