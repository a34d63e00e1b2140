// The fields of a request, read strictly: what OpenAI's clients send to `cria serve` and write into
// files for `cria batch`.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/error.h"

namespace cria::tools {

using RequestJson = nlohmann::ordered_json;

/// A request that cannot be honoured as it stands.
class RequestError : public Error {
 public:
  /// code: as OpenAI's errors have it, "invalid_type" …; path: of the field at fault,
  /// "messages[1].role", or "".
  RequestError(std::string code_, std::string path, std::string_view message, int status_ = 400)
      : Error("", message), status(status_), code(std::move(code_)), param(std::move(path)) {}
  int status;  ///< of HTTP
  std::string code, param;
};

/// A JSON text of at most 128 levels. Throws RequestError "invalid_json" for what is none: invalid
/// UTF-8, lone surrogates, numbers beyond double, text behind the end.
RequestJson parse_request_json(std::string_view text);

/// Each throws a RequestError that says what was expected in a field and what came.
[[noreturn]] void refuse_type(const std::string& path, std::string_view expected,
                              const RequestJson& got);
[[noreturn]] void refuse_value(const std::string& path, std::string_view expected,
                               const RequestJson& got);
[[noreturn]] void refuse_missing(const std::string& path, std::string_view expected);
[[noreturn]] void refuse_unsupported(const std::string& path, std::string_view why);

/// The members of an object. Null is absent; whole numbers may be written 5.0; texts are never
/// taken for numbers.
class Fields {
 public:
  /// path: of the object in the request, "" at its top. Throws RequestError for what is no object,
  /// which outlives this.
  Fields(const RequestJson& object, std::string path = "");

  [[nodiscard]] const RequestJson& json() const { return object_; }
  [[nodiscard]] std::string path(std::string_view name) const;
  /// Null: it is absent.
  [[nodiscard]] const RequestJson* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Whether it is there, as null.
  [[nodiscard]] bool is_null(std::string_view name) const;
  [[nodiscard]] const RequestJson& require(std::string_view name, std::string_view expected) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::string require_text(std::string_view name) const;
  [[nodiscard]] const RequestJson* array(std::string_view name) const;
  [[nodiscard]] const RequestJson* object(std::string_view name) const;
  /// From low to high.
  [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high) const;
  [[nodiscard]] std::optional<std::int64_t> integer(
      std::string_view name, std::int64_t low,
      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;

 private:
  const RequestJson& object_;
  const std::string path_;
};

/// A whole number from low to high, which path names.
std::int64_t read_integer(const RequestJson& value, const std::string& path, std::int64_t low,
                          std::int64_t high);
/// Likewise a number.
double read_number(const RequestJson& value, const std::string& path, double low, double high);
/// The path of an element: "stop[2]".
std::string element_path(const std::string& array, std::size_t index);

}  // namespace cria::tools
