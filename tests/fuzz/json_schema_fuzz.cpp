// JSON schemas: compiled and followed.
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/mask_walk.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

void run_json_schema(std::string_view input) { walk_masks(*Constraint::json_schema(input), input); }

// Each definition refers to the next: deep without nesting.
std::string chain_of_references() {
  std::string out = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 250; ++i)
    out += "\"" + std::to_string(i) + R"(":{"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"},";
  return out + R"("250":{}}})";
}

std::vector<std::string> json_schema_seeds() {
  return {
      R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":9},"ab":{"type":["integer","null"],"minimum":-5,"exclusiveMaximum":17},"c":{"type":"array","items":{"type":"number","maximum":1.5},"minItems":1,"maxItems":3}},"required":["name"],"additionalProperties":false})",
      R"({"type":"object","properties":{"ab":{"type":"boolean"}},"additionalProperties":{"type":"string"}})",
      R"({"anyOf":[{"type":"string","pattern":"^[a-z]+$"},{"enum":["a",1,null,{"a":[1.5]}]},{"const":"é"}]})",
      R"({"oneOf":[{"type":"string"},{"type":"array","prefixItems":[{"type":"boolean"}],"items":false}]})",
      R"({"allOf":[{"type":"integer","minimum":3},{"maximum":7}],"$comment":"c"})",
      R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"n":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/n"}]}}}}})",
      R"({"type":"string","format":"date-time"})",
      R"({"type":"string","format":"uuid"})",
      R"({"type":"string","pattern":"a|b","minLength":2,"maxLength":40})",
      "true",
      "{}",
      R"({"not":{}})",
      chain_of_references()};
}

std::vector<std::string> json_schema_words() {
  return {"\"type\"",
          "\"properties\"",
          "\"required\"",
          "\"additionalProperties\"",
          "\"items\"",
          "\"prefixItems\"",
          "\"minItems\"",
          "\"maxItems\"",
          "\"minLength\"",
          "\"maxLength\"",
          "\"pattern\"",
          "\"format\"",
          "\"minimum\"",
          "\"maximum\"",
          "\"exclusiveMinimum\"",
          "\"exclusiveMaximum\"",
          "\"anyOf\"",
          "\"oneOf\"",
          "\"allOf\"",
          "\"$ref\"",
          "\"#/$defs/n\"",
          "\"$defs\"",
          "\"enum\"",
          "\"const\"",
          "\"object\"",
          "\"string\"",
          "\"integer\"",
          "\"number\"",
          "\"array\"",
          "\"null\"",
          "1e300",
          "0.1",
          "9007199254740993",
          "\"date\"",
          "\"ipv4\"",
          "\"time\""};
}

}  // namespace

const Target kJsonSchema{"json_schema", run_json_schema, json_schema_seeds, mutate_json,
                         json_schema_words};

}  // namespace cria::fuzz
