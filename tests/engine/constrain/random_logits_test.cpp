// Whatever the logits are, a finished answer is JSON that does what its schema asks, by checks of
// this test's own.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "engine/constrain/token_masks.h"
#include "engine/sample/sampler.h"
#include "model/file/json.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria {
namespace {

// Describes what a value violates, or "". Knows the keywords of the schemas below.
class SchemaCheck {
 public:
  explicit SchemaCheck(const SortedJson& root) : root_(root) {}

  std::string fault(const SortedJson& value) const { return fault(value, root_); }

 private:
  std::string fault(const SortedJson& value, const SortedJson& schema) const {
    if (schema.is_boolean())
      return schema.get<bool>() ? "" : "nothing may stand here: " + value.dump();
    for (const auto& [key, what] : schema.items()) {
      if (const bool holds = keyword(value, schema, key, what); !holds)
        return value.dump() + " against " + key + " " + what.dump();
    }
    return "";
  }

  bool satisfies(const SortedJson& value, const SortedJson& schema) const {
    return fault(value, schema).empty();
  }

  bool keyword(const SortedJson& value, const SortedJson& schema, const std::string& key,
               const SortedJson& what) const {
    const auto holds = [&](const SortedJson& one) { return satisfies(value, one); };
    if (key == "$defs") return true;
    if (key == "$ref")
      return satisfies(value, root_.at(Json::json_pointer(what.get<std::string>().substr(1))));
    if (key == "type")
      return what.is_array()
                 ? std::ranges::any_of(what,
                                       [&](const SortedJson& one) { return has_type(value, one); })
                 : has_type(value, what);
    if (key == "enum") return std::ranges::count(what, value) != 0;
    if (key == "const") return value == what;
    if (key == "anyOf") return std::ranges::any_of(what, holds);
    if (key == "oneOf") return std::ranges::count_if(what, holds) == 1;
    if (key == "allOf") return std::ranges::all_of(what, holds);
    if (value.is_number()) return number_keyword(value.get<double>(), key, what);
    if (value.is_string()) return string_keyword(value.get<std::string>(), key, what);
    if (value.is_array()) return array_keyword(value, schema, key, what);
    if (value.is_object()) return object_keyword(value, schema, key, what);
    return true;
  }

  static bool has_type(const SortedJson& value, const std::string& type) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == (value.is_number() ? "number" : value.type_name());
  }

  static bool number_keyword(double value, const std::string& key, const SortedJson& what) {
    if (key == "minimum") return value >= what.get<double>();
    if (key == "maximum") return value <= what.get<double>();
    if (key == "exclusiveMinimum") return value > what.get<double>();
    if (key == "exclusiveMaximum") return value < what.get<double>();
    return is_of_other_types(key, "number");
  }

  static bool string_keyword(const std::string& value, const std::string& key,
                             const SortedJson& what) {
    const auto length = static_cast<std::size_t>(std::ranges::count_if(
        value, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    if (key == "minLength") return length >= what.get<std::size_t>();
    if (key == "maxLength") return length <= what.get<std::size_t>();
    if (key == "pattern") return std::regex_search(value, std::regex(what.get<std::string>()));
    if (key == "format") return std::regex_match(value, std::regex(format(what)));
    return is_of_other_types(key, "string");
  }

  static const char* format(const std::string& name) {
    if (name == "date") return R"(\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01]))";
    if (name == "ipv4") return R"((\d{1,3}\.){3}\d{1,3})";
    return R"([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})";
  }

  bool array_keyword(const SortedJson& value, const SortedJson& schema, const std::string& key,
                     const SortedJson& what) const {
    const std::size_t named = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    if (key == "minItems") return value.size() >= what.get<std::size_t>();
    if (key == "maxItems") return value.size() <= what.get<std::size_t>();
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (key == "prefixItems" && i < named && !satisfies(value[i], what[i])) return false;
      if (key == "items" && i >= named && !satisfies(value[i], what)) return false;
    }
    return key == "prefixItems" || key == "items" || is_of_other_types(key, "array");
  }

  bool object_keyword(const SortedJson& value, const SortedJson& schema, const std::string& key,
                      const SortedJson& what) const {
    const SortedJson named = schema.value("properties", SortedJson::object());
    if (key == "required")
      return std::ranges::all_of(
          what, [&](const SortedJson& name) { return value.contains(std::string(name)); });
    for (const auto& [name, member] : value.items()) {
      if (key == "properties" && what.contains(name) && !satisfies(member, what[name]))
        return false;
      if (key == "additionalProperties" && !named.contains(name) && !satisfies(member, what))
        return false;
    }
    return key == "properties" || key == "additionalProperties" || is_of_other_types(key, "object");
  }

  // A keyword that no check above knows must not be taken for one that holds.
  static bool is_of_other_types(const std::string& key, const std::string& type) {
    static const std::map<std::string, std::string> kTypes = {{"minimum", "number"},
                                                              {"maximum", "number"},
                                                              {"exclusiveMinimum", "number"},
                                                              {"exclusiveMaximum", "number"},
                                                              {"minLength", "string"},
                                                              {"maxLength", "string"},
                                                              {"pattern", "string"},
                                                              {"format", "string"},
                                                              {"minItems", "array"},
                                                              {"maxItems", "array"},
                                                              {"items", "array"},
                                                              {"prefixItems", "array"},
                                                              {"properties", "object"},
                                                              {"required", "object"},
                                                              {"additionalProperties", "object"}};
    const auto found = kTypes.find(key);
    return found != kTypes.end() && found->second != type;
  }

  const SortedJson& root_;
};

const char* const kSchemas[] = {
    R"({"type":"boolean"})",
    R"({"type":"integer"})",
    R"({"type":"number"})",
    R"({"type":["integer","null"],"minimum":0,"maximum":99})",
    R"({"enum":["a",1,null,true,[1],{"b":2},"ab","abc"]})",
    R"({"const":{"a":[1,null,"x \" \\ é"]}})",
    R"({"type":"string","maxLength":16})",
    R"({"type":"string","minLength":5,"maxLength":9})",
    R"({"type":"string","minLength":3,"maxLength":3})",
    R"({"type":"integer","minimum":-5,"maximum":5})",
    R"({"type":"integer","minimum":1900,"maximum":2100})",
    R"({"type":"integer","exclusiveMinimum":99,"maximum":12345})",
    R"({"type":"number","minimum":0,"maximum":1})",
    R"({"type":"number","exclusiveMinimum":-273.15,"exclusiveMaximum":1000})",
    R"({"type":"number","minimum":-0.5,"maximum":-0.25})",
    R"({"type":"string","pattern":"^[A-Z][a-z]{1,8}$"})",
    R"({"type":"string","pattern":"^(yes|no|maybe)$"})",
    R"({"type":"string","pattern":"^[a-z]+(-[a-z]+){0,3}$","maxLength":24})",
    R"({"type":"string","pattern":"ab","maxLength":8})",
    R"({"type":"string","format":"date"})",
    R"({"type":"string","format":"ipv4"})",
    R"({"type":"string","format":"uuid"})",
    R"({"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":4})",
    R"({"type":"array","prefixItems":[{"type":"string","maxLength":4},{"type":"integer","minimum":0}],"items":false,"minItems":2})",
    R"({"type":"array","prefixItems":[{"enum":["x"]}],"items":{"type":"integer","maximum":9,"minimum":0},"minItems":1,"maxItems":4})",
    R"({"type":"array","items":{"enum":["x",1]}})",
    R"({"type":"array","items":{"type":"array","items":{"type":"null"}},"minItems":1})",
    R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"boolean"}})",
    R"({"type":"object","properties":{},"additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"integer","minimum":0},"b":{"type":"null"},"c":{"enum":[1,2]}},"required":["b"],"additionalProperties":false})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":9}},"required":["name"],"additionalProperties":{"type":"boolean"}})",
    R"({"type":"object","additionalProperties":{"type":"integer","minimum":0,"maximum":9}})",
    R"({"type":"object","properties":{"user":{"type":"object","properties":{"zip":{"type":"string","pattern":"^\\d{5}$"},"on":{"type":"boolean"}},"required":["zip","on"],"additionalProperties":false}},"required":["user"],"additionalProperties":false})",
    R"({"type":"array","maxItems":3,"items":{"type":"object","properties":{"id":{"type":"integer","minimum":1,"maximum":99},"tags":{"type":"array","items":{"enum":["x","y"]},"maxItems":2}},"required":["id","tags"],"additionalProperties":false}})",
    R"({"anyOf":[{"type":"integer","minimum":0,"maximum":9},{"type":"string","maxLength":5}]})",
    R"({"oneOf":[{"type":"object","properties":{"type":{"const":"circle"},"r":{"type":"integer","minimum":1}},"required":["type","r"],"additionalProperties":false},{"type":"object","properties":{"type":{"const":"square"},"side":{"type":"integer","minimum":1}},"required":["type","side"],"additionalProperties":false}]})",
    R"({"allOf":[{"type":"integer","minimum":3},{"maximum":7}]})",
    R"({"allOf":[{"type":"string","minLength":2},{"maxLength":5}]})",
    R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer","minimum":0,"maximum":9},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}},"required":["v","next"],"additionalProperties":false}}})",
    R"({"$ref":"#/$defs/e","$defs":{"e":{"anyOf":[{"type":"integer","minimum":0,"maximum":9},{"type":"object","properties":{"op":{"enum":["+","*"]},"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}},"required":["op","l","r"],"additionalProperties":false}]}}})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},"children":{"type":"array","items":{"$ref":"#"},"maxItems":1}},"required":["name"],"additionalProperties":false})",
};

// Logits that say nothing but that an answer may come to its end.
class RandomAnswers {
 public:
  explicit RandomAnswers(std::uint64_t seed)
      : trie_(test::demo_model().token_trie()), random_(seed), logits_(trie_->vocabulary_size) {
    options_.temperature = 1;
    options_.top_k = 0;
    options_.top_p = 1;
    options_.min_p = 0;
    options_.seed = seed;
    for (std::size_t id = 0; id < logits_.size(); ++id)
      if (trie_->text(static_cast<TokenId>(id)).find_first_of("\"}]") != std::string_view::npos)
        closing_.push_back(id);
  }

  /// Returns the text, or "" if it does not end within this many tokens.
  std::string answer(const Constraint& constraint, std::size_t most) {
    Sampler sampler(options_, logits_.size());
    ++*options_.seed;
    TokenMasks::Run run(constraint.state().masks(trie_), trie_);
    std::string text;
    for (std::size_t i = 0; i < most; ++i) {
      for (float& logit : logits_) logit = static_cast<float>(random_.next() % 4);
      for (const std::size_t id : closing_) logits_[id] += 4;
      for (const TokenId end : trie_->ends) logits_[static_cast<std::size_t>(end)] += 6;
      const TokenId token = sampler.next(logits_, {}, *run.mask());
      if (std::ranges::count(trie_->ends, token) != 0) return text;
      EXPECT_TRUE(run.accept(token));
      text += trie_->text(token);
      if (run.finished()) return text;
    }
    return "";
  }

 private:
  std::shared_ptr<const TokenTrie> trie_;
  test::Random random_;
  SamplerOptions options_;
  std::vector<float> logits_;
  std::vector<std::size_t> closing_;
};

TEST(RandomLogits, AnswersSatisfyTheirSchemas) {
  RandomAnswers answers(1);
  for (const char* const text : kSchemas) {
    const SortedJson schema = SortedJson::parse(text);
    const auto constraint = Constraint::json_schema(text);
    std::size_t whole = 0;
    for (int i = 0; i < 6; ++i) {
      const std::string answer = answers.answer(*constraint, 80);
      if (answer.empty()) continue;
      ++whole;
      const SortedJson value = SortedJson::parse(answer, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text << ": " << answer;
      EXPECT_EQ(SchemaCheck(schema).fault(value), "") << text;
      EXPECT_TRUE(constraint->accepts(answer)) << answer;
    }
    EXPECT_GT(whole, 0U) << text;
  }
}

TEST(RandomLogits, AnswersMatchTheirExpressions) {
  RandomAnswers answers(2);
  for (const char* const expression :
       {"[a-z]{1,4}", "(ab|cd)*x", R"(\d{3}-\d{4})", R"(\w+@\w+\.(com|org))", "a?b{2}c+",
        R"(#[0-9A-F]{6})", "(0|[1-9][0-9]{0,2})(\\.5)?"}) {
    const auto constraint = Constraint::regex(expression);
    std::size_t whole = 0;
    for (int i = 0; i < 4; ++i) {
      const std::string answer = answers.answer(*constraint, 200);
      if (answer.empty()) continue;
      ++whole;
      EXPECT_TRUE(std::regex_match(answer, std::regex(expression))) << expression << ": " << answer;
    }
    EXPECT_GT(whole, 0U) << expression;
  }
}

// Brackets that close in order, JSON by a grammar.
TEST(RandomLogits, AnswersAreOfTheirGrammars) {
  RandomAnswers answers(3);
  const auto json = Constraint::gbnf(R"gbnf(root ::= object
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= string ":" ws value
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ([0-9] | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]?)? ws
ws ::= [ \t\n]{0,2}
)gbnf");
  std::size_t whole = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string answer = answers.answer(*json, 60);
    if (answer.empty()) continue;
    ++whole;
    // "\ud800" is of the grammar, and no JSON text.
    EXPECT_TRUE(answer.find("\\u") != std::string::npos || SortedJson::accept(answer)) << answer;
  }
  EXPECT_GT(whole, 0U);
  const auto brackets =
      Constraint::gbnf("root ::= (\"(\" root \")\" | \"[\" root \"]\" | \"x\"){0,3}");
  for (int i = 0; i < 8; ++i) {
    std::string open;
    for (const char c : answers.answer(*brackets, 100)) {
      if (c == '(' || c == '[') open += c == '(' ? ')' : ']';
      if (c != ')' && c != ']') continue;
      ASSERT_TRUE(open.ends_with(c));
      open.pop_back();
    }
    EXPECT_EQ(open, "");
  }
}

}  // namespace
}  // namespace cria
