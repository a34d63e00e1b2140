// What a request asks of the form of its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/constrain/constraint.h"
#include "tools/options/fields.h"

namespace cria::tools {

struct ConstraintFields {
  enum class Kind : std::uint8_t { None, JsonObject, JsonSchema, Grammar };
  Kind kind = Kind::None;
  std::string text;  ///< the schema as JSON, or the grammar
  std::string path;  ///< of the field that says it
};

/// 1 to 64 of [A-Za-z0-9_-], as schemas and tools are named.
bool is_name(const std::string& name);
inline constexpr const char* kNameForm = "1 to 64 letters, digits, _ and -";

/// "response_format" and "grammar". Throws RequestError with the path of what is wrong.
ConstraintFields read_constraint_fields(const Fields& body);
/// Null: anything. Throws RequestError "invalid_schema" or "invalid_grammar" with the field.
std::shared_ptr<const Constraint> compile(const ConstraintFields& fields);

}  // namespace cria::tools
