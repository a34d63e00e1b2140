// `--lora` and `cria merge BASE --lora … OUT`, on the demo model.
#include <gtest/gtest.h>

#include "model/gguf/writer.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

constexpr const char* kDemo = CRIA_DATA "/cria-demo-Q8_0.gguf";

/// An adapter of rank 2 that is strong enough to change what the demo model says.
std::string write_adapter(const TempDirectory& directory, const std::string& type = "lora") {
  GgufWriter writer(directory.path("adapter.gguf"));
  writer.set("general.type", std::string("adapter"));
  writer.set("general.architecture", std::string("llama"));
  writer.set("adapter.type", type);
  writer.set("adapter.lora.alpha", 4.0F);
  for (int layer = 0; layer < 8; ++layer) {
    const std::string name = "blk." + std::to_string(layer) + ".ffn_up.weight";
    writer.declare(name + ".lora_a", DType::F32, {256, 2});
    writer.declare(name + ".lora_b", DType::F32, {2, 768});
  }
  writer.begin();
  for (int layer = 0; layer < 8; ++layer) {
    for (const std::size_t n : {512U, 1536U}) {
      std::vector<float> values(n);
      for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 37 % 41) / 41 - 0.5F;
      writer.write(std::as_bytes(std::span(values)));
    }
  }
  writer.finish();
  return writer.path();
}

Result say(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"run", "-m", model, "-p", "Once", "-n", "12", "--temp", "0"};
  words.insert(words.end(), more.begin(), more.end());
  return cria(words);
}

TEST(Lora, ChangesAnswersByItsScale) {
  const TempDirectory directory;
  const std::string file = write_adapter(directory);
  const Result plain = say(kDemo), changed = say(kDemo, {"--lora", file});
  ASSERT_EQ(changed.code, 0) << changed.err;
  EXPECT_NE(changed.out, plain.out);
  EXPECT_EQ(say(kDemo, {"--lora", file + ":0"}).out, plain.out);
  EXPECT_EQ(say(kDemo, {"--lora", file, "--lora", file + ":-1"}).out, plain.out)
      << "both together are nothing";
  EXPECT_EQ(say(kDemo, {"--lora", file + ":1"}).out, changed.out);
}

TEST(Lora, MergingGivesTheSameAnswer) {
  const TempDirectory directory;
  const std::string file = write_adapter(directory), out = directory.path("merged.gguf");
  const Result merged = cria({"merge", kDemo, "--lora", file, out, "--type", "f32"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  const std::string base =
      directory.path("base.gguf");  // the same matrices in floats: the same arithmetic
  ASSERT_EQ(cria({"merge", kDemo, "--lora", file + ":0", base, "--type", "f32"}).code, 0);
  EXPECT_EQ(say(out).out, say(base, {"--lora", file}).out);
  EXPECT_NE(say(out).out, say(base).out);
  EXPECT_EQ(GgufFile::open(out).tensor("blk.0.ffn_up.weight")->dtype, DType::F32);
  EXPECT_EQ(GgufFile::open(out).tensor("blk.0.ffn_gate.weight")->dtype, DType::Q8_0);
  EXPECT_EQ(GgufFile::open(out).get_uint("general.file_type"), 7U)
      << "most matrices are Q8_0 still";
  const std::string mix = directory.path("mix.gguf");
  ASSERT_EQ(cria({"quantize", kDemo, mix, "Q4_K_S", "--allow-requantize"}).code, 0);
  ASSERT_EQ(cria({"merge", mix, "--lora", file, out, "--type", "f16"}).code, 0);
  EXPECT_EQ(GgufFile::open(out).get_uint("general.file_type"), 14U)
      << "the base knows which mix it is";
  ASSERT_EQ(cria({"merge", kDemo, out, "--lora", file}).code, 0);
  EXPECT_EQ(GgufFile::open(out).tensor("blk.0.ffn_up.weight")->dtype, DType::Q8_0);
}

TEST(Lora, ReportsErrors) {
  const TempDirectory directory;
  const std::string file = write_adapter(directory, "dora");
  const Result bad = say(kDemo, {"--lora", file});
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.err,
            "cria: error: " + file +
                ": not an adapter of this model: expected 'lora', got 'dora' (key adapter.type)\n");
  EXPECT_EQ(say(kDemo, {"--lora", directory.path("none.gguf")}).code, 1);
  EXPECT_EQ(say(kDemo, {"--lora", file + ":strong"}).code, 2);
  EXPECT_EQ(say(kDemo, {"--lora", file + ":nan"}).code, 2);
  const Result whole = cria({"merge", kDemo, directory.path("x.gguf")});
  EXPECT_EQ(whole.code, 1);
  EXPECT_NE(whole.err.find("or adapters (--lora)"), std::string::npos) << whole.err;
  EXPECT_EQ(cria({"merge", kDemo, "--lora", file, directory.path("x.gguf")}).code, 1);
  EXPECT_EQ(cria({"merge", kDemo, "--lora", file + ":0.5", file}).err,
            "cria: error: " + file + ": cannot write: it is the input itself (" + file + ")\n");
}

}  // namespace
}  // namespace cria::test
