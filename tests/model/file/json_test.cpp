#include "model/file/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/model/bytes.h"

namespace cria::test {
namespace {

std::string json_error_in(std::string_view text, const JsonLimits& limits = {}) {
  return error_of([&] { return parse_json(text, "test.json", limits); });
}

TEST(Json, ReadsUpToTheLimits) {
  const auto json = parse_json(R"({"a": [1, {"b": "é"}], "c": {"b": null}})", "test.json",
                               {.bytes = 60, .depth = 3, .values = 8});
  EXPECT_EQ(json["a"][1]["b"], "é");
}

TEST(Json, RejectsInvalidJson) {
  EXPECT_EQ(json_error_in("{\"a\": }"),
            "test.json: is not JSON (at byte 7: unexpected '}'; expected '[', '{', or a literal)");
  EXPECT_EQ(json_error_in(""),
            "test.json: is not JSON (at byte 1: unexpected end of input; expected '[', '{', or a "
            "literal)");
  EXPECT_NE(json_error_in("{\"a\": 1e999}").find("test.json: cannot be read as JSON"),
            std::string::npos);
  EXPECT_NE(json_error_in("\"\xC0\x80\"").find("not JSON"), std::string::npos);
  EXPECT_NE(json_error_in("[1] [2]").find("not JSON"), std::string::npos);
}

TEST(Json, RefusesWhatExceedsALimit) {
  EXPECT_EQ(json_error_in("[1,2]", {.bytes = 4}),
            "test.json: JSON is too large: expected at most 4 bytes, got 5");
  EXPECT_EQ(json_error_in("[[1]]", {.depth = 1}),
            "test.json: JSON is nested too deeply: expected at most 1 levels");
  EXPECT_NE(json_error_in(std::string(1'000'000, '[')).find("nested too deeply"),
            std::string::npos);
  EXPECT_EQ(json_error_in("[1,2]", {.values = 2}),
            "test.json: too many JSON values: expected at most 2");
}

// Like the merges of a tokenizer.json; quadratic time would take hours.
TEST(Json, ManyArraysInOne) {
  std::string text = "[[]";
  for (int i = 1; i < 1'000'000; ++i) text += ",[]";
  EXPECT_EQ(parse_json(text + "]", "test.json", {.values = 1'000'001}).size(), 1'000'000U);
}

TEST(Json, RejectsDuplicateKeys) {
  EXPECT_EQ(json_error_in(R"({"a":{"a":1},"b":2,"a":3})"),
            "test.json: a key stands twice in one JSON object (key a)");
  EXPECT_EQ(json_error_in(R"([{"a":1},{"a":2}])"), "");
}

TEST(Json, ExactJsonKeepsDigits) {
  const std::string text =
      R"({"b":[123456789012345678901234567890,-99999999999999999999,18446744073709551615,1.5,"é"],)"
      R"("a":{},"b2":[[],{"x":null}]})";
  const nlohmann::ordered_json json = parse_exact_json(text);
  EXPECT_EQ(exact_json_text(json), text);
  EXPECT_EQ(json["b"][2], 18446744073709551615U);
  EXPECT_TRUE(json["b"][0].is_binary());
  EXPECT_EQ(exact_json_text(json["b2"], 1), "[\n [],\n {\n  \"x\": null\n }\n]");
  constexpr std::string_view kRepeated = R"({"b":{"a":1,"a":2}})";
  EXPECT_EQ(exact_json_text(parse_exact_json(kRepeated, false)), R"({"b":{"a":2}})");
  EXPECT_EQ(error_of([&] { return parse_exact_json(kRepeated); }),
            "a key stands twice in one JSON object (key a)");
  EXPECT_THROW((void)parse_exact_json("{"), nlohmann::json::parse_error);
  EXPECT_THROW((void)parse_exact_json("1e999"), nlohmann::json::out_of_range);
  EXPECT_TRUE(parse_exact_json("[1", false).is_discarded());
}

TEST(Json, ReadsFilesOnly) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_json(directory.write("x.json", "[1]")).size(), 1U);
  EXPECT_NE(error_of([&] {
              return read_json(directory.file(""));
            }).find("is a directory: expected a JSON file"),
            std::string::npos);
}

TEST(Error, NotANumberHasOneSpelling) {
  EXPECT_EQ(number_text(std::nanf("")), "nan");
  EXPECT_EQ(number_text(-std::nanf("")), "nan");
  EXPECT_EQ(number_text(-std::numeric_limits<float>::infinity()), "-inf");
  EXPECT_EQ(number_text(-0.25F), "-0.25");
}

}  // namespace
}  // namespace cria::test
