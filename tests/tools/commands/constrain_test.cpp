// Constrained answers: --json-schema, --grammar, --regex, and the same fields in batch requests.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "model/file/json.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

const std::string kCatSchema =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, )"
    R"("age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["name", "age"], )"
    R"("additionalProperties": false})";

void expect_cat(const std::string& text) {
  const SortedJson cat = SortedJson::parse(text, nullptr, false);
  ASSERT_TRUE(cat.is_object()) << text;
  EXPECT_EQ(cat.size(), 2U);
  EXPECT_TRUE(cat.at("name").is_string());
  EXPECT_LE(cat.at("age").get<int>(), 99);
}

TEST(Constrain, RunKeepsToTheSchema) {
  const TempDirectory directory;
  for (const std::string& schema : {kCatSchema, directory.write("schema", kCatSchema)}) {
    for (const char* const temperature : {"0", "1.2"}) {
      const Result result = cria({"run", "Describe a cat.", "--json-schema", schema, "--temp",
                                  temperature, "--seed", "3"});
      EXPECT_EQ(result.code, 0) << result.err;
      expect_cat(result.out);
    }
  }
}

TEST(Constrain, RunKeepsToAGrammarAndAnExpression) {
  const TempDirectory directory;
  const std::string grammar = directory.write("grammar", "root ::= \"yes\" | \"no\"\n");
  const std::string out = cria({"run", "Is grass green?", "--grammar", grammar, "--seed", "1"}).out;
  EXPECT_TRUE(out == "yes\n" || out == "no\n") << out;
  const std::string name =
      cria({"run", "A name", "--regex", "[A-Z][a-z]{3,8}[.]", "--temp", "0"}).out;
  EXPECT_TRUE(std::regex_match(name, std::regex("[A-Z][a-z]{3,8}[.]\n"))) << name;
}

TEST(Constrain, UnsupportedConstraintsAreUsageErrors) {
  const TempDirectory directory;
  const std::string grammar = directory.write("grammar", "root ::= \"a\" |\n  foo\n");
  const std::vector<std::vector<std::string>> cases = {
      {"--json-schema", R"({"properties": {"a": {"not": {"type": "null"}}}})", "/properties/a/not"},
      {"--json-schema", R"({"type": "integer", "minimum": 2, "maximum": 1})", "no value"},
      {"--json-schema", directory.path("absent"), "No such file"},
      {"--grammar", grammar, "line 2, column 3"},
      {"--regex", "(?=a)b", "look-around"}};
  for (const auto& one : cases) {
    const Result result = cria({"run", "x", one[0], one[1]});
    EXPECT_EQ(result.code, 2) << one[1];
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(one[0] + ":"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(one[2]), std::string::npos) << result.err;
  }
  EXPECT_EQ(cria({"run", "x", "--regex", "a", "--grammar", grammar}).code, 2);
}

TEST(Constrain, RequestsOfABatchSayIt) {
  const TempDirectory directory;
  const SortedJson cat = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "cat"}, {"schema", SortedJson::parse(kCatSchema)}}}};
  const SortedJson none = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "none"}, {"schema", {{"not", {{"type", "null"}}}}}}}};
  const std::vector<SortedJson> requests = {
      {{"response_format", cat}},
      {{"grammar", "root ::= \"yes\" | \"no\""}},
      {{"temperature", 1}},
      {{"response_format", {{"type", "text"}}}},
      {{"response_format", none}},
      {{"grammar", "root ::= a"}},
      {{"grammar", "root ::= \"a\""}, {"response_format", cat}}};
  std::string lines;
  for (SortedJson request : requests) {
    request["prompt"] = "Describe a cat.";
    lines += request.dump() + "\n";
  }
  const std::string out = directory.path("out");
  const Result result = cria({"batch", "-i", directory.write("in", lines), "-o", out, "--regex",
                              "xy+z", "--temp", "0", "-n", "100"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<SortedJson> answers;
  std::istringstream text(read_file(out));
  for (std::string line; std::getline(text, line);) answers.push_back(SortedJson::parse(line));
  ASSERT_EQ(answers.size(), requests.size());
  expect_cat(answers[0].at("text"));
  EXPECT_TRUE(answers[1].at("text") == "yes" || answers[1].at("text") == "no") << answers[1];
  EXPECT_EQ(answers[2].at("text").get<std::string>().substr(0, 2), "xy");
  EXPECT_NE(answers[3].at("text").get<std::string>().substr(0, 2), "xy");
  EXPECT_NE(answers[4].at("error").dump().find("at /not"), std::string::npos) << answers[4];
  EXPECT_NE(answers[5].at("error").dump().find("line 1, column 10"), std::string::npos)
      << answers[5];
  EXPECT_NE(answers[6].at("error").dump().find("cannot be combined with"), std::string::npos)
      << answers[6];
}

}  // namespace
}  // namespace cria::test
