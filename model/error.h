// The one exception of the library: bad data or a failed run. Programmer errors are assertions.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cria {

/// what() reads "FILE: what is wrong: expected X, got Y (at byte N | key K | tensor T)"; the program prints
/// it after "cria: error: ".
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  /// file: the file at fault ("" if none); where: "byte 12", "key general.alignment", "tensor
  /// blk.0.attn_q.weight" or "".
  Error(std::string_view file, std::string_view message, std::string_view where = {})
      : std::runtime_error((file.empty() ? std::string() : std::string(file) + ": ") + std::string(message) +
                           (where.empty() ? std::string() : " (" + std::string(where) + ")")) {}
};

}  // namespace cria
