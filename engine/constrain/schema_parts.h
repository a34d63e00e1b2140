// What reading a schema's keywords and combining its parts share.
#pragma once

#include <string>
#include <string_view>

#include "engine/constrain/constraint_error.h"

namespace cria {

/// A key as a part of a JSON pointer (RFC 6901).
inline std::string pointer_part(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~' || c == '/')
      out += c == '~' ? "~0" : "~1";
    else
      out += c;
  }
  return out;
}

/// For what is not supported; place: a JSON pointer.
[[noreturn]] inline void refuse_schema(const std::string& what, const std::string& place) {
  throw ConstraintError("schema: " + what, place.empty() ? "/" : place);
}

/// For what is no schema.
[[noreturn]] inline void refuse_malformed_schema(const std::string& what,
                                                 const std::string& place) {
  throw ConstraintError("schema: " + what, place.empty() ? "/" : place, true);
}

inline void require_kind(bool holds, std::string_view kind, const std::string& at) {
  if (!holds) refuse_malformed_schema("expected " + std::string(kind), at);
}

/// Keywords that hold other schemas of the same value.
inline bool is_combination(std::string_view key) {
  return key == "$ref" || key == "anyOf" || key == "oneOf" || key == "allOf";
}

/// Steps that copying or comparing so much text takes, beside those of any text.
inline std::size_t steps_of_text(std::size_t bytes) { return bytes / 32; }

}  // namespace cria
