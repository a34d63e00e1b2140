// Fields of a JSON request, read strictly: of clients of `cria serve` and files of `cria batch`.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.h"
#include "model/file/json.h"

namespace cria::tools {

/// A request that cria refuses.
class RequestError : public Error {
 public:
  /// code: one of OpenAI's, such as "invalid_type". path: the field at fault, such as
  /// "messages[1].role", or "".
  RequestError(std::string code_, std::string path, std::string_view message, int status_ = 400)
      : Error("", message), status(status_), code(std::move(code_)), param(std::move(path)) {}
  int status;  ///< HTTP status
  std::string code, param;
};

/// Parses JSON of at most 128 levels. Throws RequestError "invalid_json", also for invalid UTF-8,
/// lone surrogates, numbers beyond double and text after the end.
Json parse_request_json(std::string_view text);

/// Each throws a RequestError that names the field, what was expected and what it holds.
[[noreturn]] void refuse_type(const std::string& path, std::string_view expected, const Json& got);
[[noreturn]] void refuse_value(const std::string& path, std::string_view expected, const Json& got);
[[noreturn]] void refuse_missing(const std::string& path, std::string_view expected);
[[noreturn]] void refuse_unsupported(const std::string& path, std::string_view why);

/// The members of an object. Null means absent; whole numbers may be written 5.0; strings are never
/// taken for numbers. It remembers which names were asked for.
class Fields {
 public:
  /// path: of the object in the request, "" at its top. The object must outlive this. Throws
  /// RequestError if it is not an object.
  Fields(const Json& object, std::string path = "");

  [[nodiscard]] const Json& json() const { return object_; }
  [[nodiscard]] std::string path(std::string_view name) const;
  /// Returns null if the member is absent.
  [[nodiscard]] const Json* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// True if the member is there and null.
  [[nodiscard]] bool is_null(std::string_view name) const;
  [[nodiscard]] const Json& require(std::string_view name, std::string_view expected) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::string require_text(std::string_view name) const;
  [[nodiscard]] const Json* array(std::string_view name) const;
  [[nodiscard]] const Json* object(std::string_view name) const;
  /// Returns the names of the members that no call has asked for, in their order.
  [[nodiscard]] std::vector<std::string> unknown() const;
  /// Returns the names that a call has asked for.
  [[nodiscard]] std::vector<std::string> known() const { return {asked_.begin(), asked_.end()}; }
  /// The limits are inclusive.
  [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high) const;
  [[nodiscard]] std::optional<std::int64_t> integer(
      std::string_view name, std::int64_t low,
      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;

 private:
  [[nodiscard]] std::string other_text(std::string_view name) const;

  const Json& object_;
  const std::string path_;
  mutable std::set<std::string, std::less<>> asked_;
};

/// Throws RequestError for a field of other protocols or engines, if it asks for something: says
/// where it belongs.
void reject_foreign_field(const Fields& fields, std::string_view name);
/// The same for all members that no call has asked for.
void reject_foreign_fields(const Fields& fields);
/// Throws RequestError for a member that no call has asked for, if one letter more, less or other
/// would make it a name that was asked for.
void reject_typing_errors(const Fields& fields);

/// Returns a whole number from low to high; path is for errors.
std::int64_t read_integer(const Json& value, const std::string& path, std::int64_t low,
                          std::int64_t high);
/// Returns a number from low to high.
double read_number(const Json& value, const std::string& path, double low, double high);
/// Returns the path of an element, such as "stop[2]".
std::string element_path(const std::string& array, std::size_t index);

}  // namespace cria::tools
