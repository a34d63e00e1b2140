// --override-kv, --rope-* and --yarn-*: the same logits as a file that says so itself.
#include <gtest/gtest.h>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

class Overrides : public testing::Test {
 protected:
  /// The logits of some tokens, as bytes.
  std::string logits_with(std::vector<std::string> options,
                          const std::string& model = kDemo) const {
    const std::string out = directory_.path("out.f32");
    options.insert(options.begin(),
                   {"logits", "-m", model, "--tokens", "1,40,50,60,70,80,90,100", "-o", out});
    const Result result = cria(std::move(options));
    EXPECT_EQ(result.code, 0) << result.err;
    return read_file(out);
  }
  std::string edited(const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {"edit", kDemo, directory_.path("edited.gguf")};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    EXPECT_EQ(cria(std::move(words)).code, 0);
    return directory_.path("edited.gguf");
  }

  TempDirectory directory_;
};

TEST_F(Overrides, EqualValuesInTheFile) {
  const std::string plain = logits_with({});
  const auto expect_same = [&](const std::vector<std::string>& options,
                               const std::vector<std::string>& settings) {
    const std::string got = logits_with(options);
    EXPECT_NE(got, plain) << options.front();
    EXPECT_EQ(got, logits_with({}, edited(settings))) << options.front();
  };
  expect_same({"--override-kv", "llama.attention.layer_norm_rms_epsilon=float:0.25"},
              {"llama.attention.layer_norm_rms_epsilon=f32:0.25"});
  expect_same({"--override-kv", ".rope.freq_base=f32:500", "--override-kv",
               "llama.rope.dimension_count=int:8"},
              {"llama.rope.freq_base=f32:500", "llama.rope.dimension_count=u32:8"});
  expect_same({"--rope-freq-base", "500"}, {"llama.rope.freq_base=f32:500"});
  const std::vector<std::string> linear = {"llama.rope.scaling.type=string:linear",
                                           "llama.rope.scaling.factor=f32:2"};
  expect_same({"--rope-scaling", "linear", "--rope-scale", "2"}, linear);
  expect_same({"--rope-freq-scale", "0.5"}, linear);
  expect_same(
      {"--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "128", "--yarn-beta-fast",
       "16", "--yarn-beta-slow", "2", "--yarn-attn-factor", "0.5"},
      {"llama.rope.scaling.type=string:yarn", "llama.rope.scaling.factor=f32:4",
       "llama.rope.scaling.original_context_length=u32:128",
       "llama.rope.scaling.yarn_beta_fast=f32:16", "llama.rope.scaling.yarn_beta_slow=f32:2",
       "llama.rope.scaling.attn_factor=f32:0.5"});
}

TEST_F(Overrides, TextsAndTruthValues) {
  const Result result = cria({"tokenize", "-m", kDemo, "-p", "hi", "--ids"});
  const Result run =
      cria({"run", "-m", kDemo, "--override-kv", "tokenizer.ggml.add_bos_token=bool:false",
            "--override-kv", "general.name=str:a:b=c", "-v", "-n", "1", "hi"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("a:b=c, llama"), std::string::npos) << run.err;
}

TEST_F(Overrides, RejectsInvalidOverrides) {
  const auto refused = [](const std::string& value, const std::string& message) {
    const Result result = cria({"run", "-m", kDemo, "--override-kv", value, "hi"});
    EXPECT_EQ(result.code, 2) << value;
    EXPECT_EQ(result.out, "") << value;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("--override-kv"), std::string::npos) << result.err;
  };
  refused("llama.rope.freq_base", "KEY=TYPE:VALUE");
  refused("llama.rope.freq_base=double:3", "a type");
  refused("llama.rope.freq_base=float:many", "f64");
  refused("a=u32[]:[1]", "array");
  refused("a=u64:18446744073709551615", "too large");
  const Result bad =
      cria({"run", "-m", kDemo, "--override-kv", "llama.attention.head_count=int:0", "hi"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("llama.attention.head_count"), std::string::npos) << bad.err;
  EXPECT_EQ(cria({"run", "-m", kDemo, "--rope-scaling", "ntk", "hi"}).code, 2);
  for (const char* const option : {"--rope-scale", "--rope-freq-scale", "--yarn-orig-ctx"}) {
    const Result none = cria({"run", "-m", kDemo, option, "0", "hi"});
    EXPECT_EQ(none.code, 2);
    EXPECT_NE(none.err.find(std::string(option) + ": expected a "), std::string::npos) << none.err;
  }
}

}  // namespace
}  // namespace cria::test
