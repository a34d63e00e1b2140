// A GGUF file as a list of unchecked parts: every part can be made wrong before the bytes are
// written.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/writer.h"

namespace cria::test {

struct Image {
  struct Key {
    std::string name;
    GgufData value;
    std::optional<std::uint32_t> type = {};    ///< instead of the value's own
    std::optional<std::string> payload = {};   ///< bytes after the type
    std::optional<std::uint64_t> length = {};  ///< length of the name, instead of the true one
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type = 0;
    std::string data;
    std::optional<std::uint64_t> offset = {};      ///< instead of behind the tensor before it
    std::optional<std::uint32_t> dimensions = {};  ///< instead of as many as the shape has
    std::optional<std::uint64_t> length = {};      ///< length of the name, if not its true one
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count, key_count;  ///< instead of the true ones
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::uint64_t alignment = 32;
  std::string tail;  ///< after the data of the last tensor

  /// Returns the key's value, which is new and last if the key does not exist.
  GgufData& set(std::string_view name);
  /// A key before all others, whose place in the file is known: its name's length stands at
  /// byte 24 (version 3).
  Key& first_key(std::string name, GgufData value = std::uint32_t{0});
  Key& key(std::string_view name);
  Tensor& tensor(std::string_view name);
  void erase(std::string_view key);
  void remove(std::string_view tensor);
  void truncate_data(std::string_view tensor);  ///< drops its data: the file gives it none

  [[nodiscard]] std::string header() const;  ///< up to the padding before the data
  [[nodiscard]] std::string bytes() const;

 private:
  [[nodiscard]] std::uint64_t aligned(std::uint64_t n) const {
    return (n + alignment - 1) / alignment * alignment;
  }
};

/// Numbers as they lie in a file.
template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A small LLaMA with a SentencePiece vocabulary, in every way valid: two layers, matrices in
/// Q8_0, norms in F32.
Image valid_model();
/// The same with a byte-pair vocabulary.
Image valid_byte_pair_model();
/// The vocabulary of the valid model.
Image valid_vocabulary();

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr std::uint32_t kValidVocabulary =
    266;  ///< tokens and rows of the embedding, of both

}  // namespace cria::test
