// Cases 29 to 44: hyper-parameters that are missing, senseless or contradict each other.
#include <gtest/gtest.h>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

std::function<void(Image&)> with(const std::string& suffix, const GgufData& data) {
  return [=](Image& m) { m.set("llama." + suffix) = data; };
}
std::function<void(Image&)> no_key(const std::string& suffix) {
  return [=](Image& m) { m.erase("llama." + suffix); };
}
/// One key with one bad value after the other.
struct BadValue {
  std::string says;
  GgufData data;
};
void expect_bad_values(const std::string& suffix, const std::vector<BadValue>& values) {
  std::vector<Defect> defects;
  defects.reserve(values.size());
  for (const BadValue& bad : values)
    defects.push_back({bad.says + " (key llama." + suffix + ")", with(suffix, bad.data)});
  expect_refused(defects);
}
GgufData numbers(const std::vector<std::int32_t>& values) { return GgufArray::of(values); }

TEST(MalformedHyperParameters, Case029Layers) {
  expect_refused({{"missing key (key llama.block_count)", no_key("block_count")}});
  expect_bad_values(
      "block_count",
      {{"out of range: expected 1 to 1024, got 0", 0U},
       {"out of range: expected 1 to 1024, got 4294967295", UINT32_MAX},
       {"out of range: expected 1 to 1024, got 18446744073709551615", ~std::uint64_t{0}},
       {"negative number: expected 0 or more, got -2", -2},
       {"more layers than tensors: expected at most 21, got 22", 22U}});
  expect_refused({{"missing tensor: expected shape [64] (tensor blk.2.attn_norm.weight)",
                   with("block_count", 3U)},
                  {"tensor of a layer that does not exist: expected layers 0 to 0 (tensor "
                   "blk.1.attn_norm.weight)",
                   with("block_count", 1U)}});
}

TEST(MalformedHyperParameters, Case030Embedding) {
  expect_refused({{"missing key (key llama.embedding_length)", no_key("embedding_length")}});
  expect_bad_values("embedding_length",
                    {{"out of range: expected 1 to 1048576, got 0", 0U},
                     {"out of range: expected 1 to 1048576, got 1048577", (1U << 20) + 1},
                     {"not a multiple of the heads: expected a multiple of 4, got 63", 63U}});
}

TEST(MalformedHyperParameters, Case031Heads) {
  expect_refused(
      {{"missing key (key llama.attention.head_count)", no_key("attention.head_count")}});
  expect_bad_values("attention.head_count", {{"out of range: expected 1 to 1024, got 0", 0U},
                                             {"out of range: expected 1 to 1024, got 1025", 1025U},
                                             {"negative number: expected 0 or more, got -4", -4}});
}

TEST(MalformedHyperParameters, Case032KvHeads) {
  const std::string says = "KV heads do not divide the heads: expected a divisor of 4, got ";
  expect_bad_values("attention.head_count_kv",
                    {{"out of range: expected 1 to 1024, got 0", 0U},
                     {says + "8", 8U},
                     {says + "3", 3U},
                     {says + "3", numbers({2, 3})},
                     {"out of range: expected 1 to 1024, got 0", numbers({2, 0})}});
}

TEST(MalformedHyperParameters, Case033HeadArrays) {
  const std::string says = "wrong length of an array: expected one number per layer, 2, got ";
  for (const std::string key :
       {"attention.head_count", "attention.head_count_kv", "feed_forward_length"}) {
    expect_bad_values(key, {{says + "1", numbers({2})},
                            {says + "3", numbers({2, 2, 2})},
                            {says + "0", numbers({})},
                            {"wrong type of a key: expected array of integers, got array of f32",
                             GgufArray::of(std::vector<float>{2, 2})}});
  }
  expect_bad_values("attention.head_count",
                    {{"out of range: expected 1 to 1024, got 0", numbers({4, 0})}});
}

TEST(MalformedHyperParameters, Case034FeedForward) {
  expect_refused({{"missing key (key llama.feed_forward_length)", no_key("feed_forward_length")}});
  expect_bad_values("feed_forward_length",
                    {{"out of range: expected 1 to 16777216, got 0", 0U},
                     {"out of range: expected 1 to 16777216, got 16777217", (1U << 24) + 1}});
}

TEST(MalformedHyperParameters, Case035RopeDimension) {
  expect_bad_values("rope.dimension_count",
                    {{"out of range: expected 1 to 16, got 0", 0U},
                     {"odd RoPE dimension: expected an even number, got 15", 15U},
                     {"out of range: expected 1 to 16, got 18", 18U}});
}

TEST(MalformedHyperParameters, Case036RopeBase) {
  const std::string says = "bad number: expected a finite number above 0, got ";
  expect_bad_values("rope.freq_base", {{says + "0", 0.0F},
                                       {says + "-10000", -10000.0F},
                                       {says + "nan", kNan},
                                       {says + "inf", kInf},
                                       {says + "inf", 1e300}});  // does not fit into 32 bits
}

TEST(MalformedHyperParameters, Case037RopeScaling) {
  const std::string says = "bad number: expected a finite number above 0, got ";
  for (const std::string key : {"rope.scaling.factor", "rope.scale_linear"}) {
    expect_bad_values(key, {{"bad number: expected a finite number, got nan", kNan},
                            {"bad number: expected a finite number, got inf", kInf}});
  }
  expect_bad_values("rope.scaling.type",
                    {{"unknown RoPE scaling: expected none, linear, yarn or longrope, got 'odd'",
                      std::string("odd")},
                     {"wrong type of a key: expected string, got u32", 1U}});
  const auto yarn = [](const std::string& suffix, float bad) {
    return [=](Image& m) {
      m.set("llama.rope.scaling.type") = std::string("yarn");
      m.set("llama.rope.scaling.factor") = 4.0F;
      m.set("llama.rope.scaling." + suffix) = bad;
    };
  };
  expect_refused({
      {says + "0 (key llama.rope.scaling.attn_factor)", yarn("attn_factor", 0)},
      {says + "nan (key llama.rope.scaling.yarn_beta_fast)", yarn("yarn_beta_fast", kNan)},
      {says + "-1 (key llama.rope.scaling.yarn_beta_slow)", yarn("yarn_beta_slow", -1)},
  });
  for (const char* type : {"linear", "yarn"}) {  // without a factor nothing is scaled
    Image unscaled = valid_model();
    unscaled.set("llama.rope.scaling.type") = std::string(type);
    expect_same_answer(unscaled);
  }
}

TEST(MalformedHyperParameters, Case038Epsilon) {
  const std::string key = "attention.layer_norm_rms_epsilon",
                    says = "bad epsilon: expected a finite number, 0 or more, got ";
  expect_refused({{"missing key (key llama." + key + ")", no_key(key)}});
  expect_bad_values(key, {{says + "-1e-05", -1e-5F}, {says + "nan", kNan}, {says + "inf", kInf}});
}

TEST(MalformedHyperParameters, Case039Context) {
  expect_refused({{"missing key (key llama.context_length)", no_key("context_length")}});
  expect_bad_values("context_length",
                    {{"out of range: expected 1 to 1073741824, got 0", 0U},
                     {"out of range: expected 1 to 1073741824, got 4294967295", UINT32_MAX}});
  Image largest = valid_model();
  largest.set("llama.context_length") = 1U << 30;  // nothing is allocated from it
  const TempDirectory directory;
  const std::string path = directory.write("largest.gguf", largest.bytes());
  const Result result =
      limited({"run", "-m", path, "-p", "Hi!", "-n", "3", "--temp", "0", "--ignore-eos"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, expect_answer(valid_model()).out);
}

TEST(MalformedHyperParameters, Case040Experts) {
  const std::string says = "bad number of experts used: expected 1 to 8, got ",
                    key = " (key llama.expert_used_count)";
  const auto experts = [](std::uint32_t used) {
    return [used](Image& m) {
      m.set("llama.expert_count") = 8U;
      m.set("llama.expert_used_count") = used;
    };
  };
  expect_refused({
      {says + "0" + key, experts(0)},
      {says + "9" + key, experts(9)},
      {says + "0" + key, with("expert_count", 8U)},
      {"unknown for this architecture: expected the key to be absent, got 8 (key "
       "llama.expert_count)",
       experts(2)},
  });
}

TEST(MalformedHyperParameters, Case041VocabularySizes) {
  const auto tokens = [](std::size_t n) {
    return [n](Image& m) {
      m.set("tokenizer.ggml.tokens") = GgufArray::of(std::vector<std::string>(n, "x"));
    };
  };
  expect_refused({
      {"more tokens than embeddings: expected at most 266, got 267 (key tokenizer.ggml.tokens)",
       tokens(267)},
      {"vocabulary size fits neither embeddings nor tokens: expected 266, got 265 (key "
       "llama.vocab_size)",
       with("vocab_size", 265U)},
      {"vocabulary size fits neither embeddings nor tokens: expected 266, got 4294967295 (key "
       "llama.vocab_size)",
       with("vocab_size", UINT32_MAX)},
      {"wrong shape: expected [64, 266], got [64, 265] (tensor output.weight)",
       [](Image& m) {
         m.tensor("output.weight").shape[1] = 265;
         m.tensor("output.weight").data.resize(265 * 68);
       }},
  });
  Image padded = valid_model();  // rows beyond the token list, as in many models
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    padded.tensor(name).shape[1] += 6;
    padded.tensor(name).data += std::string(6 * 68, '\0');
  }
  expect_same_answer(padded);
  Image likely = valid_model();  // rows that would win every time, but name no token
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    std::string& data = likely.tensor(name).data;
    std::string more = data;
    for (std::size_t block = 0; block < more.size(); block += 34)
      more[block + 1] = static_cast<char>(more[block + 1] + 8);  // four times its f16 scale
    likely.tensor(name).shape[1] *= 2;
    data += more;
  }
  expect_same_answer(likely);
}

TEST(MalformedHyperParameters, Case042WrongTypes) {
  const std::string says = "wrong type of a key: expected ";
  expect_bad_values("embedding_length", {{says + "an integer, got f32", 64.0F},
                                         {says + "an integer, got string", std::string("64")},
                                         {says + "an integer, got bool", true},
                                         {says + "an integer, got array of i32", numbers({64})}});
  expect_bad_values("rope.freq_base", {{says + "f32 or f64, got u32", 10000U},
                                       {says + "f32 or f64, got string", std::string("1e4")}});
  expect_refused({{says + "string, got u32 (key general.name)",
                   [](Image& m) { m.set("general.name") = 7U; }}});
  Image wide = valid_model();  // other widths of integers
  wide.set("llama.block_count") = std::uint64_t{2};
  wide.set("llama.embedding_length") = std::int16_t{64};
  wide.set("llama.attention.layer_norm_rms_epsilon") = double{1e-5F};
  expect_same_answer(wide);
}

TEST(MalformedHyperParameters, Case043KeyAndValueLengths) {
  expect_refused({
      {"wrong shape: expected [64, 128], got [64, 64] (tensor blk.0.attn_q.weight)",
       with("attention.key_length", 32U)},
      {"wrong shape: expected [64, 64], got [64, 32] (tensor blk.0.attn_v.weight)",
       with("attention.value_length", 32U)},
  });
  expect_bad_values("attention.key_length",
                    {{"out of range: expected 1 to 1048576, got 0", 0U},
                     {"out of range: expected 1 to 1048576, got 4294967295", UINT32_MAX}});
  expect_bad_values("attention.value_length", {{"out of range: expected 1 to 1048576, got 0", 0U}});
}

TEST(MalformedHyperParameters, Case044SlidingWindow) {
  expect_bad_values("attention.sliding_window",
                    {{"negative number: expected 0 or more, got -1", -1},
                     {"wrong type of a key: expected an integer, got string", std::string("4096")},
                     {"wrong type of a key: expected an integer, got f32", kNan}});
  Image endless = valid_model();
  endless.set("llama.attention.sliding_window") = ~std::uint64_t{0};
  expect_same_answer(endless);
}

}  // namespace
}  // namespace cria::test
