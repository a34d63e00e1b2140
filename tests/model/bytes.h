// Files built by hand, byte by byte, so that they can be wrong in every way.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/gguf/gguf.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {

/// Appends numbers and strings; word is the width of lengths (4 in version 1).
class Bytes {
 public:
  explicit Bytes(std::uint32_t version = 3) : version_(version) {}

  template <typename T>
  Bytes& put(T value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Bytes& raw(std::string_view text) { return data += text, *this; }
  Bytes& count(std::uint64_t n) {
    return version_ == 1 ? put(static_cast<std::uint32_t>(n)) : put(n);
  }
  Bytes& string(std::string_view text) { return count(text.size()).raw(text); }
  Bytes& header(std::uint64_t tensors, std::uint64_t keys) {
    return raw("GGUF").put(version_).count(tensors).count(keys);
  }
  Bytes& key(std::string_view name, GgufType type) {
    return string(name).put(static_cast<std::uint32_t>(type));
  }
  Bytes& tensor(std::string_view name, std::initializer_list<std::uint64_t> shape,
                std::uint32_t type, std::uint64_t offset) {
    string(name).put(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t n : shape) count(n);
    return put(type).put(offset);
  }
  Bytes& pad(std::size_t alignment = 32) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  Bytes& zeros(std::size_t n) { return data.append(n, '\0'), *this; }

  std::string data;

 private:
  std::uint32_t version_;
};

inline GgufFile parse(const std::string& bytes, const GgufOptions& options = {}) {
  return GgufFile::from_bytes(std::as_bytes(std::span(bytes)), "test.gguf", options);
}

/// The text of the Error that opening or using the file throws; "" if it throws none.
template <typename Function>
std::string error_of(Function&& function) {
  try {
    static_cast<void>(function());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Names a parameterized case after its defect.
template <typename Defect>
std::string case_name(const testing::TestParamInfo<Defect>& info) {
  return info.param.name;
}

}  // namespace cria::test
