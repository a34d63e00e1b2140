// Cases 65 to 75: tensors that do not fit the model, NaN and infinity.
#include <gtest/gtest.h>

#include "kernels/simd/round.h"
#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

std::function<void(Image&)> no_tensor(const std::string& name) {
  return [=](Image& m) { m.remove(name); };
}
std::string floats(std::size_t n, float value) {
  std::string data;
  for (std::size_t i = 0; i < n; ++i) data += raw(value);
  return data;
}
/// A tensor of another shape, in F32.
std::function<void(Image&)> shaped(const std::string& name,
                                   const std::vector<std::uint64_t>& shape) {
  return [=](Image& m) {
    std::uint64_t n = 1;
    for (const std::uint64_t d : shape) n *= d;
    Image::Tensor& t = m.tensor(name);
    t = {name, shape, 0, std::string(n * 4, '\0')};
  };
}
/// One more vector in F32.
std::function<void(Image&)> added(const std::string& name, const std::string& data) {
  return [=](Image& m) { m.tensors.push_back({name, {data.size() / 4}, 0, data}); };
}
/// The scale of a block of a matrix in Q8_0.
std::function<void(Image&)> scale(const std::string& name, std::size_t block, float value) {
  return [=](Image& m) { m.tensor(name).data.replace(block * 34, 2, raw(f32_to_f16(value))); };
}

TEST(MalformedModel, Case065NoEmbedding) {
  expect_refused({{"missing tensor: expected shape [64, 266] (tensor token_embd.weight)",
                   no_tensor("token_embd.weight")}});
}

TEST(MalformedModel, Case066NoOutputNorm) {
  expect_refused({{"missing tensor: expected shape [64] (tensor output_norm.weight)",
                   no_tensor("output_norm.weight")}});
}

TEST(MalformedModel, Case067NoOutputIsTied) {
  Image tied = valid_model(), same = valid_model();
  tied.remove("output.weight");
  same.tensor("output.weight").data = same.tensor("token_embd.weight").data;
  expect_same_answer(tied, same);
}

TEST(MalformedModel, Case068TensorOfALayer) {
  std::vector<Defect> defects;
  for (const char* part : {"attn_norm", "ffn_norm"})
    defects.push_back(
        {std::string("missing tensor: expected shape [64] (tensor blk.1.") + part + ".weight)",
         no_tensor(std::string("blk.1.") + part + ".weight")});
  for (const char* part :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    defects.push_back(
        {std::string("missing tensor: expected shape [*] (tensor blk.1.") + part + ".weight)",
         no_tensor(std::string("blk.1.") + part + ".weight")});
  const std::string says = "tensor of a layer that does not exist: expected layers 0 to 1 (tensor ";
  for (const std::string name :
       {"blk.99999999999.ffn_up.weight", "blk.99999999999999999999999.x", "blk.2.attn_norm.weight"})
    defects.push_back({says + name + ")", added(name, floats(1, 0))});
  expect_refused(defects);
}

TEST(MalformedModel, Case069Shape) {
  expect_refused({
      {"wrong shape: expected [64, 32], got [32, 64] (tensor blk.0.attn_k.weight)",
       shaped("blk.0.attn_k.weight", {32, 64})},
      {"wrong shape: expected [256, 64], got [64, 256] (tensor blk.1.ffn_down.weight)",
       shaped("blk.1.ffn_down.weight", {64, 256})},
      {"wrong shape: expected [64, 64], got [64, 64, 2] (tensor blk.1.attn_q.weight)",
       shaped("blk.1.attn_q.weight", {64, 64, 2})},
      {"wrong shape: expected [64], got [64, 2] (tensor output_norm.weight)",
       shaped("output_norm.weight", {64, 2})},
      {"wrong shape: expected [64], got [63] (tensor blk.0.ffn_norm.weight)",
       shaped("blk.0.ffn_norm.weight", {63})},
      {"more tokens than embeddings: expected at most 64, got 266 (key tokenizer.ggml.tokens)",
       shaped("token_embd.weight", {266, 64})},
      {"wrong shape: expected [64, 266], got [32, 266] (tensor token_embd.weight)",
       shaped("token_embd.weight", {32, 266})},
  });
}

TEST(MalformedModel, Case070TypeOfANorm) {
  const auto norm = [](std::uint32_t type, std::size_t bytes) {
    return [=](Image& m) {
      m.tensor("blk.0.attn_norm.weight").type = type;
      m.tensor("blk.0.attn_norm.weight").data.resize(bytes);
    };
  };
  const std::string says = "wrong type: expected F32, got ",
                    where = " (tensor blk.0.attn_norm.weight)";
  expect_refused({{says + "F16" + where, norm(1, 128)},
                  {says + "Q8_0" + where, norm(8, 68)},
                  {says + "I32" + where, norm(26, 256)}});
}

TEST(MalformedModel, Case071Bias) {
  expect_refused({
      {"wrong shape: expected [64], got [63] (tensor blk.0.attn_q.bias)",
       added("blk.0.attn_q.bias", floats(63, 0))},
      {"wrong shape: expected [32], got [64] (tensor blk.1.attn_k.bias)",
       added("blk.1.attn_k.bias", floats(64, 0))},
      {"wrong shape: expected [256], got [64] (tensor blk.0.ffn_up.bias)",
       added("blk.0.ffn_up.bias", floats(64, 0))},
      {"a bias that this architecture does not have (tensor blk.0.ffn_norm.bias)",
       added("blk.0.ffn_norm.bias", floats(64, 0))},
  });
  Image zero = valid_model();
  added("blk.0.attn_q.bias", floats(64, 0))(zero);
  expect_same_answer(zero);
}

TEST(MalformedModel, Case072RopeFactors) {
  const auto factors = [](const std::vector<float>& values) {
    std::string data;
    for (const float x : values) data += raw(x);
    return added("rope_freqs.weight", data);
  };
  const std::string says = "bad factor at index 7: expected a finite number above 0, got ",
                    where = " (tensor rope_freqs.weight)";
  expect_refused({
      {"wrong shape: expected [8], got [7]" + where, factors(std::vector<float>(7, 1))},
      {says + "0" + where, factors({1, 1, 1, 1, 1, 1, 1, 0})},
      {says + "nan" + where, factors({1, 1, 1, 1, 1, 1, 1, kNan})},
      {says + "inf" + where, factors({1, 1, 1, 1, 1, 1, 1, kInf})},
      {says + "-1" + where, factors({1, 1, 1, 1, 1, 1, 1, -1})},
  });
  Image ones = valid_model();
  factors(std::vector<float>(8, 1))(ones);
  expect_same_answer(ones);
}

TEST(MalformedModel, Case073Experts) {
  const auto experts = [](Image& m) {
    for (const char* part : {"gate", "up", "down"}) {
      m.remove(std::string("blk.0.ffn_") + part + ".weight");
      m.tensors.push_back({std::string("blk.0.ffn_") + part + "_exps.weight",
                           {64, 8, 3},
                           0,
                           floats(64 * 8 * 3, 0)});
    }
    m.tensors.push_back({"blk.0.ffn_gate_inp.weight", {64, 2}, 0, floats(128, 0)});
  };
  expect_refused({
      {"missing key (key llama.expert_count)", experts},
      {"wrong shape: expected [64, 4], got [64, 2] (tensor blk.0.ffn_gate_inp.weight)",
       [&](Image& m) {
         experts(m);
         m.set("llama.expert_count") = 4U;
         m.set("llama.expert_used_count") = 2U;
       }},
  });
}

TEST(MalformedModel, Case074NanValues) {
  const std::string says = "a weight is not a finite number: expected finite values, got ";
  const auto norm = [](const std::string& name, float value) {
    return [=](Image& m) { m.tensor(name).data.replace(5 * 4, 4, raw(value)); };
  };
  const auto embedding = [](std::size_t token, float value) {
    return scale("token_embd.weight", 2 * token + 1, value);
  };
  expect_refused({
      {says + "nan at value 96 (node blk.1.ffn_gate_up, tensor blk.1.ffn_up.weight)",
       scale("blk.1.ffn_up.weight", 3, kNan)},
      {says + "inf at value 0 (node blk.0.attn_qkv, tensor blk.0.attn_k.weight)",
       scale("blk.0.attn_k.weight", 0, kInf)},
      {says + "nan at value 32 (node blk.0.attn_output, tensor blk.0.attn_output.weight)",
       scale("blk.0.attn_output.weight", 1, kNan)},
      {says + "nan at value 16352 (node blk.1.ffn_down, tensor blk.1.ffn_down.weight)",
       scale("blk.1.ffn_down.weight", 511, kNan)},
      {says + "nan at value 5 (node blk.0.attn_norm, tensor blk.0.attn_norm.weight)",
       norm("blk.0.attn_norm.weight", kNan)},
      {says + "inf at value 5 (node output_norm, tensor output_norm.weight)",
       norm("output_norm.weight", kInf)},
      {says + "nan at value 64 (node output, tensor output.weight)",
       scale("output.weight", 2, kNan)},
      {says + "nan at value 96 (node token_embd, tensor token_embd.weight)", embedding(1, kNan)},
      {says + "*inf at value 96 (node token_embd, tensor token_embd.weight)", embedding(1, -kInf)},
  });
  Image unused = valid_model();  // the row of a token that never occurs
  embedding(200, kNan)(unused);
  expect_same_answer(unused);
  const TempDirectory directory;
  const Result checked =
      limited({"inspect", "--check", directory.write("nan.gguf", unused.bytes())});
  EXPECT_EQ(checked.code, 1);
  EXPECT_NE(checked.out.find("token_embd.weight: 32 NaN, 0 infinite, the first at value 12832\n"),
            std::string::npos)
      << checked.out;
  const Result valid =
      limited({"inspect", "--check", directory.write("valid.gguf", valid_model().bytes())});
  EXPECT_EQ(valid.code, 0) << valid.out;
}

TEST(MalformedModel, Case075OverflowingScales) {
  const auto scales = [](const std::string& name, float value) {
    return [=](Image& m) {
      for (std::size_t at = 0; at < m.tensor(name).data.size(); at += 34)
        m.tensor(name).data.replace(at, 2, raw(f32_to_f16(value)));
    };
  };
  const auto norms = [](const std::string& name, float value) {
    return [=](Image& m) { m.tensor(name).data = floats(64, value); };
  };
  const std::string says =
      "a result is not a finite number though the node's weights are: expected finite values, got ";
  expect_refused({
      {says + "* (node output, tensor output.weight)",
       [&](Image& m) {
         scales("output.weight", 65504)(m);
         norms("output_norm.weight", 1e34F)(m);
       }},
      {says +
           "* (node blk.0.ffn_gate_up, tensor blk.0.ffn_gate.weight, tensor blk.0.ffn_up.weight)",
       [&](Image& m) {
         scales("blk.0.ffn_up.weight", 65504)(m);
         norms("blk.0.ffn_norm.weight", 3e33F)(m);
       }},
  });
  for (const float extreme : {65504.0F, 6e-8F}) {  // the largest, and a subnormal
    Image image = valid_model();
    scales("blk.0.ffn_up.weight", extreme)(image);
    expect_answer(image);
  }
}

}  // namespace
}  // namespace cria::test
