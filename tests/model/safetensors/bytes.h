// safetensors files built by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace cria::test {

/// A header of any text and the data after it.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  return out.append(header).append(data);
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A file that grows tensor by tensor.
class SafetensorsBytes {
 public:
  SafetensorsBytes& add(std::string_view name, std::string_view dtype,
                        const std::vector<std::uint64_t>& shape, std::string_view bytes) {
    std::string dimensions;
    for (const std::uint64_t n : shape)
      dimensions += (dimensions.empty() ? "" : ",") + std::to_string(n);
    header_ += std::string(header_.empty() ? "" : ",") + "\"" + std::string(name) +
               "\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":[" + dimensions +
               "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + bytes.size()) + "]}";
    data_ += bytes;
    return *this;
  }
  [[nodiscard]] std::string file() const { return safetensors_file("{" + header_ + "}", data_); }

 private:
  std::string header_, data_;
};

}  // namespace cria::test
