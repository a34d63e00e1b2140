// Valid and invalid arguments of the C interface, drawn from the bytes of an input. Zeros are
// valid.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/c/cria.h"
#include "tests/fuzz/byte_source.h"

namespace cria::fuzz {

/// A struct in memory of exactly its own `size`: that of this header, of an older or newer one, or
/// an invalid one.
template <class T>
class SizedStruct {
 public:
  SizedStruct(T values, ByteSource& bytes) {
    const auto how = bytes.number<std::uint8_t>();
    if (how == 255) return;  // NULL
    values.size = size_for(how);
    right_ =
        values.size >= sizeof(std::size_t) && values.size <= 4096 && values.size % alignof(T) == 0;
    // With an invalid size only the size is read.
    const std::size_t n =
        values.size <= 4096 ? std::max(values.size, sizeof values.size) : sizeof values.size;
    memory_ = std::make_unique<std::byte[]>(n);
    std::memset(memory_.get(), how % 2 == 0 ? 0 : 0xAB, n);
    std::memcpy(memory_.get(), &values, std::min(n, sizeof values));
  }
  [[nodiscard]] T* get() const { return reinterpret_cast<T*>(memory_.get()); }
  /// True if it is not NULL and has the size of some version of the struct.
  [[nodiscard]] bool right() const { return right_; }
  [[nodiscard]] bool whole() const { return right_ && get()->size >= sizeof(T); }

 private:
  static std::size_t size_for(std::uint8_t how) {
    constexpr std::size_t kOdd[] = {0, 4, 8, 12, 20, 4096, 4104, SIZE_MAX};
    const std::size_t step = alignof(T) * (1 + how % 4U);
    if (how < 192) return sizeof(T);
    if (how < 208) return sizeof(T) - std::min(step, sizeof(T));
    return how < 224 ? sizeof(T) + step : kOdd[how % 8];
  }

  std::unique_ptr<std::byte[]> memory_;
  bool right_ = false;
};

/// An array in memory of exactly its size.
template <class T>
struct ArrayArgument {
  ArrayArgument() = default;
  ArrayArgument(ArrayArgument&&) = default;  // items keep their addresses

  std::vector<T> items;
  const T* data = nullptr;
  std::size_t n = 0;
  bool right = true;

  /// Passes the array, or NULL, or a length beyond memory.
  void tell(std::uint8_t how) {
    items.shrink_to_fit();
    data = how == 252 || how == 253 || how == 255 ? nullptr : items.data();
    n = how == 252 ? 0 : how >= 254 ? SIZE_MAX : items.size();
    right = how <= 252;
  }
};

/// Tokens of a model with 40 tokens: a few from the input, or many.
inline ArrayArgument<cria_token> token_argument(ByteSource& bytes) {
  constexpr cria_token kNone[] = {-1, 40, INT32_MIN, INT32_MAX};
  const auto how = bytes.number<std::uint8_t>();
  ArrayArgument<cria_token> out;
  const std::size_t n = how < 128 ? 1 + how % 10U : how - 100U;
  for (std::size_t i = 0; i < n; ++i) {
    const auto byte =
        static_cast<std::uint8_t>(how < 128 ? bytes.number<std::uint8_t>() : i * 7 + how);
    out.items.push_back(byte >= 252 ? kNone[byte - 252] : byte % 40);
  }
  out.tell(how);
  return out;
}

/// A string that ends with '\0': "", one of the list, or NULL.
inline const char* text_argument(ByteSource& bytes) {
  static constexpr const char* kTexts[] = {
      "a",
      "",
      "ab a b",
      "w12 w13\n",
      "<s>a</s><|im_end|>",
      "\xFF\xFE\xC3",
      "{{ m }}",
      "caaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  const auto which = bytes.number<std::uint8_t>();
  return which >= 250 ? nullptr : kTexts[which % std::size(kTexts)];
}

/// A string with its size: the remaining bytes, one of the list, or NULL.
inline ArrayArgument<char> sized_text_argument(ByteSource& bytes) {
  const auto how = bytes.number<std::uint8_t>();
  ArrayArgument<char> out;
  const char* const listed = how % 2 == 0 ? text_argument(bytes) : nullptr;
  const std::string_view text = listed == nullptr ? bytes.rest() : listed;
  out.items.assign(text.begin(), text.end());
  out.tell(how);
  return out;
}

/// Variables of a chat template: absent, an object, or invalid.
inline const char* variables_argument(ByteSource& bytes) {
  constexpr const char* kVariables[] = {nullptr, "{}", R"({"tools": [], "enable_thinking": false})",
                                        "{",     "3",  R"({"messages": 1})"};
  return kVariables[bytes.between(0, std::size(kVariables) - 1)];
}

}  // namespace cria::fuzz
