#include "tools/options/constraint_fields.h"

#include <algorithm>

#include "model/plural.h"

namespace cria::tools {
namespace {

constexpr std::size_t kLargestSchema = 256 << 10;  // bytes of JSON

void set_schema(const RequestJson& schema, std::string path, ConstraintFields& out) {
  out.kind = ConstraintFields::Kind::JsonSchema;
  out.text = schema.dump();
  out.path = std::move(path);
  const std::size_t usual = schema.dump(0).size();  // with blanks, as most clients write it
  if (usual > kLargestSchema)
    throw RequestError(
        "invalid_schema", out.path,
        "\"" + out.path + "\": expected at most 256 KiB, got " + counted(usual, "byte"));
}

void read_json_schema(const Fields& format, ConstraintFields& out) {
  const Fields fields(format.require("json_schema", "an object"), format.path("json_schema"));
  if (const std::string name = fields.require_text("name"); !is_name(name))
    refuse_value(fields.path("name"), kNameForm, name);
  (void)fields.flag("strict");
  (void)fields.text("description");
  set_schema(fields.require("schema", "a JSON schema"), fields.path("schema"), out);
}

void read_format(const Fields& body, ConstraintFields& out) {
  const RequestJson* const json = body.find("response_format");
  if (json == nullptr) return;
  const Fields format(*json, "response_format");
  const std::string type = format.require_text("type");
  if (type == "json_schema") {
    read_json_schema(format, out);
  } else if (type == "json_object") {
    out = {ConstraintFields::Kind::JsonObject, "", "response_format"};
    if (const RequestJson* const schema = format.find("schema"))
      set_schema(*schema, format.path("schema"), out);
  } else if (type != "text") {
    refuse_value(format.path("type"), "\"text\", \"json_object\" or \"json_schema\"", type);
  }
}

}  // namespace

bool is_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, allowed);
}

ConstraintFields read_constraint_fields(const Fields& body) {
  ConstraintFields out;
  read_format(body, out);
  if (const auto grammar = body.text("grammar")) {
    if (out.kind != ConstraintFields::Kind::None)
      refuse_unsupported("grammar", "it cannot stand beside a \"response_format\"");
    out = {ConstraintFields::Kind::Grammar, *grammar, "grammar"};
  }
  return out;
}

std::shared_ptr<const Constraint> compile(const ConstraintFields& fields) {
  using Kind = ConstraintFields::Kind;
  if (fields.kind == Kind::None) return nullptr;
  if (fields.kind == Kind::JsonObject) return Constraint::any_object();
  const bool grammar = fields.kind == Kind::Grammar;
  try {
    return grammar ? Constraint::gbnf(fields.text) : Constraint::json_schema(fields.text);
  } catch (const ConstraintError& error) {
    throw RequestError(grammar ? "invalid_grammar" : "invalid_schema", fields.path,
                       "\"" + fields.path + "\": " + error.what());
  }
}

}  // namespace cria::tools
