#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/gguf/writer.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

/// A file with nested arrays, odd strings, and one tensor with the given values.
std::string odd_file(const TempDirectory& directory, const std::vector<float>& values) {
  std::string path = directory.path("odd.gguf");
  GgufWriter writer(path);
  writer.set("general.architecture", std::string("odd"));
  writer.set("odd.bell", std::string("a\033[31m\x07"));
  writer.set("odd.bytes", std::string("\xFF\xFE"));
  GgufArray nested{GgufType::Array, {}};
  nested.values.emplace_back(GgufArray::of(std::vector<std::uint32_t>{1, 2, 3}));
  nested.values.emplace_back(GgufArray::of(std::vector<std::string>{"x", "y"}));
  writer.set("odd.nested", nested);
  writer.set("odd.negative", std::int64_t{-5});
  writer.declare("values", DType::F32, {values.size()});
  writer.begin();
  writer.write(std::as_bytes(std::span(values)));
  writer.finish();
  return path;
}

#ifndef CRIA_SANITIZED  // sanitizers need an address space without limit
TEST(Inspect, AndSplitTakeMemoryInProportionToAnArray) {
  constexpr std::size_t kElements = 8 << 20, kMost = std::size_t{256} << 20;
  const TempDirectory directory;
  const std::string path = directory.path("large.gguf"), out = directory.path("out");
  GgufWriter writer(path);
  writer.set("large", GgufArray{GgufType::U8, {}, kElements, std::string(kElements, '\7')});
  for (const char* name : {"a", "b"}) writer.declare(name, DType::F32, {1});
  writer.begin();
  for (int i = 0; i < 2; ++i) writer.write(std::as_bytes(std::span("1234", 4)));
  writer.finish();
  const Result shown = cria_in({.address_space = kMost}, {"inspect", path, "--json"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_GT(count_lines(shown.out), kElements);
  EXPECT_EQ(shown.out.substr(shown.out.find("\"large\""), 20), "\"large\": [\n   7,\n   ");
  const Result split =
      cria_in({.address_space = kMost}, {"split", path, out, "--max-tensors", "1"});
  EXPECT_EQ(split.code, 0) << split.err;
  EXPECT_EQ(GgufFile::open(out + "-00001-of-00002.gguf").find("large")->bytes, kElements);
}
#endif

TEST(Inspect, TablesOfTheDemoModel) {
  const Result result = cria({"inspect"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("GGUF version 3"), std::string::npos);
  EXPECT_NE(result.out.find("architecture llama"), std::string::npos);
  EXPECT_NE(result.out.find("7.34 M parameters, 8.5"), std::string::npos)
      << result.out.substr(0, 300);
  EXPECT_NE(result.out.find("string[4096]"), std::string::npos);
  EXPECT_NE(result.out.find("quantization Q8_0\n"), std::string::npos);
  EXPECT_NE(result.out.find("context: 512 tokens; with -c 512 (the default): "), std::string::npos);
  EXPECT_NE(result.out.find("capabilities: completion, chat\n"), std::string::npos);
  EXPECT_EQ(result.out.find("blk.7.ffn_down.weight"), std::string::npos);
  EXPECT_NE(result.out.find("--tensors lists them"), std::string::npos);
}

TEST(Inspect, SelectsParts) {
  const std::string keys = cria({"inspect", kDemo, "--kv"}).out,
                    tensors = cria({"inspect", kDemo, "--tensors"}).out;
  EXPECT_NE(keys.find("llama.block_count"), std::string::npos);
  EXPECT_EQ(keys.find("token_embd.weight"), std::string::npos);
  EXPECT_EQ(tensors.find("llama.block_count"), std::string::npos);
  EXPECT_NE(tensors.find("token_embd.weight"), std::string::npos);
}

TEST(Inspect, ListsEndTokens) {
  const std::string text = cria({"inspect", kDemo, "--tokenizer"}).out;
  EXPECT_NE(text.find("tokenizer llama, "), std::string::npos) << text;
  EXPECT_NE(text.find("end of generation   4  <|im_end|>"), std::string::npos) << text;
  const auto json =
      nlohmann::json::parse(cria({"inspect", kDemo, "--json", "--tokenizer"}).out).at("tokenizer");
  const std::vector<int> ends = json.at("end_of_generation");
  EXPECT_EQ(std::count(ends.begin(), ends.end(), 4), 1);
  EXPECT_EQ(json.at("special").at("bos"), 1);
}

TEST(Inspect, JsonHasArraysInFull) {
  const auto json = nlohmann::json::parse(cria({"inspect", kDemo, "--json"}).out);
  EXPECT_EQ(json.at("summary").at("parameters"), 7344384);
  EXPECT_EQ(json.at("metadata").at("tokenizer.ggml.tokens").size(), 4096U);
  EXPECT_EQ(json.at("metadata").at("llama.block_count"), 8);
  const auto& tensors = json.at("tensors");
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.at("name") == "token_embd.weight";
  });
  ASSERT_NE(embedding, tensors.end());
  EXPECT_EQ(embedding->at("shape"), (std::vector<int>{256, 4096}));
  EXPECT_EQ(embedding->at("type"), "Q8_0");
}

TEST(Inspect, NestedArraysAndOddBytes) {
  const TempDirectory directory;
  const std::string path = odd_file(directory, {1, 2, 3, 4});
  const Result table = cria({"inspect", path});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.out.find('\033'), std::string::npos)
      << "control characters of a file reach the terminal";
  EXPECT_NE(table.out.find(R"([[1,2,3],["x","y"]])"), std::string::npos) << table.out;
  const auto json = nlohmann::json::parse(cria({"inspect", path, "--json"}).out);
  EXPECT_EQ(json.at("metadata").at("odd.nested"), nlohmann::json::parse(R"([[1,2,3],["x","y"]])"));
  EXPECT_EQ(json.at("metadata").at("odd.negative"), -5);
}

TEST(Inspect, JsonHasEveryPeakOfTheText) {
  const auto limits = nlohmann::json::parse(cria({"inspect", "--cpu", "--measure", "--json"}).out)
                          .at("cpu")
                          .at("limits");
  const std::string text = cria({"inspect", "--cpu", "--measure"}).out;
  const std::pair<const char*, const char*> peaks[] = {
      {"int8 dot", "int8_gmac_per_second"},
      {"float32", "float32_gmac_per_second"},
      {"bfloat16", "bfloat16_gmac_per_second"},
      {"int8 matrix unit", "int8_matrix_gmac_per_second"}};
  for (const auto& [name, key] : peaks)
    EXPECT_EQ(limits.at(key) > 0,
              text.find(std::string(", ") + name + " ") != std::string::npos ||
                  text.find(std::string("\n") + name + " ") != std::string::npos)
        << key << text;
}

TEST(Inspect, ATemplateCannotDriveTheTerminal) {
  const TempDirectory directory;
  const std::string path = directory.path("template.gguf");
  GgufWriter writer(path);
  writer.set("general.architecture", std::string("llama"));
  writer.set("tokenizer.chat_template", std::string("\033[31mred"));
  writer.begin();
  writer.finish();
  EXPECT_EQ(cria({"inspect", path, "--template"}).out, "\033[31mred\n");
  Child child(Child::Kind::Terminal, {"inspect", path, "--template"});
  EXPECT_TRUE(child.wait_for("^[[31mred")) << child.output();
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Inspect, CheckFindsNans) {
  const TempDirectory directory;
  const Result good = cria({"inspect", kDemo, "--check"});
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("tensors hold finite numbers"), std::string::npos);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  const Result bad = cria({"inspect", odd_file(directory, {1, kNan, kInf, -kInf}), "--check"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.out.find("values: 1 NaN, 2 infinite, the first at value 1\n0 of 1 tensor"),
            std::string::npos)
      << bad.out;
  const auto json =
      nlohmann::json::parse(cria({"inspect", directory.path("odd.gguf"), "--check", "--json"}).out);
  EXPECT_EQ(json.at("check").at(0).at("first"), 1);
}

TEST(Inspect, StatisticsOfEveryTensor) {
  const TempDirectory directory;
  const Result result = cria({"inspect", odd_file(directory, {-3, 0, 0, 5}), "--check", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_TRUE(json.at("check").empty());
  const auto& values = json.at("statistics").at(0);
  EXPECT_EQ(values.at("values"), 4);
  EXPECT_EQ(values.at("zeros"), 2);
  EXPECT_EQ(values.at("min"), -3);
  EXPECT_EQ(values.at("max"), 5);
  EXPECT_EQ(values.at("mean"), 0.5);
  EXPECT_NEAR(values.at("rms"), std::sqrt(34.0 / 4), 1e-12);
  const std::string text = cria({"inspect", directory.path("odd.gguf"), "--check"}).out;
  EXPECT_NE(text.find("values  F32    -3    5   0.5  2.915  50.00 %"), std::string::npos) << text;
}

TEST(Inspect, DiffListsDifferences) {
  const TempDirectory directory;
  const std::string a = odd_file(directory, {1, 2, 3, 4});
  const Result same = cria({"inspect", a, "--diff", a});
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_EQ(same.out.find("no difference"), 0U);
  const std::string b = directory.path("b.gguf");
  GgufWriter writer(b);
  writer.set("general.architecture", std::string("even"));
  writer.set("odd.negative", std::int32_t{-5});
  writer.set("more", std::uint32_t{1});
  writer.declare("values", DType::F32, {4});
  writer.declare("new", DType::F32, {1});
  writer.begin();
  const std::vector<float> values = {1, 2.5, 3, 6, 0};
  writer.write(std::as_bytes(std::span(values).first(4)));
  writer.write(std::as_bytes(std::span(values).last(1)));
  writer.finish();
  const Result text = cria({"inspect", a, "--diff", b});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find(R"("odd" / "even")"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("only in B"), std::string::npos) << text.out;
  const auto json =
      nlohmann::json::parse(cria({"inspect", a, "--diff", b, "--json"}).out).at("difference");
  EXPECT_EQ(json.at("equal"), false);
  EXPECT_EQ(json.at("keys").size(), 6U)
      << "two others, three missing, one more: " << json.at("keys");
  EXPECT_EQ(json.at("tensors").size(), 1U);
  EXPECT_EQ(json.at("values").at(0).at("different"), 2);
  EXPECT_EQ(json.at("values").at(0).at("largest"), 2);
  EXPECT_NEAR(json.at("values").at(0).at("rmse"), std::sqrt((0.25 + 4) / 4), 1e-12);
  EXPECT_EQ(cria({"inspect", a, "--diff", directory.path("none")}).code, 1);
}

// A NaN counts as the largest difference from any number.
TEST(Inspect, DiffCountsNans) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  const TempDirectory first, second;
  const std::string a = odd_file(first, {1, 2, kNan, kInf, kNan, kInf}),
                    b = odd_file(second, {1, 5, 3, -kInf, kNan, 0});
  const auto json =
      nlohmann::json::parse(cria({"inspect", a, "--diff", b, "--json"}).out).at("difference");
  const auto& values = json.at("values").at(0);
  EXPECT_EQ(values.at("different"), 4);
  EXPECT_EQ(values.at("not_finite"), 3);
  EXPECT_EQ(values.at("largest"), 3);
  EXPECT_NEAR(values.at("rmse"), std::sqrt(9.0 / 3), 1e-12)
      << "of one, two and the NaN that both have";
  const std::string text = cria({"inspect", a, "--diff", b}).out;
  EXPECT_NE(text.find("values of  differ  of  largest difference   RMSE  NaN, infinite\n"
                      "values          4   6                   3  1.732              3\n"),
            std::string::npos)
      << text;
}

TEST(Inspect, ReadsATruncatedFile) {
  const TempDirectory directory;
  const std::string demo = read_file(kDemo);
  const std::string path = directory.write("cut.gguf", demo.substr(0, demo.size() / 2));
  const Result table = cria({"inspect", path, "--tensors"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("blk.7.ffn_down.weight"), std::string::npos);
  EXPECT_NE(table.err.find("the file ends before the data of"), std::string::npos) << table.err;
  const Result check = cria({"inspect", path, "--check", "--json"});
  EXPECT_EQ(check.code, 1);
  EXPECT_TRUE(nlohmann::json::parse(check.out).at("check").at(0).at("first").is_null());
}

TEST(Inspect, SeparatesTheMachineFromTheModel) {
  const std::string both = cria({"inspect", "--cpu", "--tensors"}).out;
  EXPECT_LT(both.find("in use: "), both.find("blk.7.ffn_down.weight")) << both;
  EXPECT_NE(both.find("blk.7.ffn_down.weight"), std::string::npos) << both;
  const auto json = nlohmann::json::parse(cria({"inspect", "--cpu", "--check", "--json"}).out);
  EXPECT_TRUE(json.contains("cpu") && json.contains("statistics")) << json;
  EXPECT_EQ(cria({"inspect", "--cpu"}).out.find("llama"), std::string::npos) << "none is asked for";
}

TEST(Inspect, GraphAndInstructionSets) {
  const Result graph = cria({"inspect", "--graph"});
  ASSERT_EQ(graph.code, 0) << graph.err;
  for (const std::string node : {"blk.0.attn", "blk.7.ffn_down", "logits"})
    EXPECT_NE(graph.out.find(node), std::string::npos) << graph.out;
  const auto cpu =
      nlohmann::json::parse(cria({"inspect", "--cpu", "--json"}, "", {"CRIA_ISA=scalar"}).out)
          .at("cpu");
  EXPECT_EQ(cpu.at("used"), "scalar");
  EXPECT_EQ(cpu.at("available").back(), "scalar");
  EXPECT_NE(cria({"inspect", "--cpu"}).out.find("in use: "), std::string::npos);
}

}  // namespace
}  // namespace cria::test
