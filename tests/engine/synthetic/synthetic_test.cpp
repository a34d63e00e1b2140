// Tiny models with architectures and types that the bundled model lacks, compared with the plain
// forward pass.
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/synthetic/synthetic.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

std::vector<TokenId> random_tokens(std::size_t n) {
  Random random(3);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random.next() % 300);
  return tokens;
}

/// Largest difference of any logit, relative to the standard deviation of the logits.
double distance(const Model& model, const SessionOptions& options, std::size_t n) {
  const std::vector<TokenId> tokens = random_tokens(n);
  const std::vector<float> got = all_logits(model, options, tokens);
  PlainForward plain(model);
  double worst = 0;
  double squares = 0;
  for (std::size_t t = 0; t < n; ++t) {
    const std::vector<double> want = plain.next(tokens[t]);
    for (std::size_t i = 0; i < want.size(); ++i) {
      worst = std::max(worst, std::abs(want[i] - got[t * want.size() + i]));
      squares += want[i] * want[i];
    }
  }
  return worst / std::sqrt(squares / static_cast<double>(got.size()));
}

SessionOptions exact() {
  SessionOptions options;
  options.kv_type = KvType::F32;
  options.n_batch = 33;
  return options;
}

// F32 throughout: some thousand roundings of 6e-8 in a chain of a dozen steps. Any mistake in the
// model's wiring is a distance of about 1, a wrong angle or bias of one head about 0.1.
constexpr double kFloatNoise = 5e-5;

TEST(TinyModel, Llama) { EXPECT_LT(distance(*TinyModel().load(), exact(), 100), kFloatNoise); }

TEST(TinyModel, Qwen2WithBiasesAndHalfSplitRope) {
  TinyModel tiny;
  tiny.arch = "qwen2";
  tiny.biases = true;
  EXPECT_LT(distance(*tiny.load(), exact(), 100), kFloatNoise);
}

TEST(TinyModel, TiedOutput) {
  TinyModel tiny;
  tiny.tied = true;
  EXPECT_LT(distance(*tiny.load(), exact(), 20), kFloatNoise);
}

TEST(TinyModel, AnyGrouping) {
  for (const std::vector<std::uint32_t>& kv : {std::vector<std::uint32_t>{6, 6}, {1, 1}, {2, 3}}) {
    TinyModel tiny;
    tiny.n_heads = 6;
    tiny.n_kv_heads = kv;
    EXPECT_LT(distance(*tiny.load(), exact(), 70), kFloatNoise) << kv[0] << " and " << kv[1];
  }
}

TEST(TinyModel, HeadsOfAnySizeAndPartialRotation) {
  for (const char* arch : {"llama", "qwen2"}) {
    TinyModel tiny;
    tiny.arch = arch;
    tiny.head_dim = 20;
    tiny.n_rot = 12;
    EXPECT_LT(distance(*tiny.load(), exact(), 70), kFloatNoise) << arch;
  }
}

TEST(TinyModel, RopeFrequencies) {
  TinyModel tiny;
  tiny.rope_freqs = {1, 1, 1.5F, 2, 4, 8, 8, 8};
  EXPECT_LT(distance(*tiny.load(), exact(), 70), kFloatNoise);
  TinyModel linear;
  linear.keys = {{"llama.rope.scaling.type", std::string("linear")},
                 {"llama.rope.scaling.factor", 4.F}};
  EXPECT_LT(distance(*linear.load(), exact(), 70), kFloatNoise);
}

// f16 keeps 11 bits, q8_0 seven and a sign; the factor is what two layers make of it.
TEST(TinyModel, SmallerKvCaches) {
  const auto model = TinyModel().load();
  SessionOptions options = exact();
  options.kv_type = KvType::F16;
  EXPECT_LT(distance(*model, options, 100), 40 * 0x1p-11);
  EXPECT_GT(distance(*model, options, 100), kFloatNoise) << "f16 was asked for";
  options.kv_type = KvType::Q8_0;
  EXPECT_LT(distance(*model, options, 100), 40 * 0x1p-8);
}

/// Types as quantizers mix them: different ones for q, k and v, for gate and up, and one that
/// quantizes activations otherwise.
TinyModel mixed() {
  TinyModel tiny;
  tiny.n_embd = 256;
  tiny.n_ff = 768;
  tiny.head_dim = 32;
  tiny.n_heads = 8;
  tiny.type_of = [](const std::string& name) {
    if (name.ends_with("attn_q")) return DType::Q4_K;
    if (name.ends_with("attn_k")) return DType::Q5_0;
    if (name.ends_with("attn_v")) return DType::F16;
    if (name.ends_with("attn_output")) return DType::Q3_K;
    if (name.ends_with("ffn_gate")) return DType::IQ4_XS;
    if (name.ends_with("ffn_up")) return DType::Q4_1;
    if (name.ends_with("ffn_down")) return name.starts_with("blk.0") ? DType::Q6_K : DType::Q8_0;
    return name == "token_embd" ? DType::Q2_K : DType::BF16;
  };
  return tiny;
}

TEST(TinyModel, MixedTypesShareRegions) {
  const auto model = mixed().load();
  SessionOptions options = exact();
  options.kernels = available_kernels().back();
  options.threads = 1;
  const std::vector<float> want = all_logits(*model, options, random_tokens(80));
  for (const KernelSet* kernels : available_kernels()) {
    for (const std::uint32_t n_batch : {1, 7, 64}) {
      options.kernels = kernels;
      options.n_batch = n_batch;
      options.threads = 2;
      EXPECT_TRUE(same_bytes(all_logits(*model, options, random_tokens(80)), want))
          << kernels->isa << " " << n_batch;
    }
  }
  // Activations of eight bits: each product is good to about 1 %.
  EXPECT_LT(distance(*model, exact(), 20), 0.15);
}

TEST(TinyModel, EveryWeightTypeRuns) {
  for (const std::uint32_t id :
       {0U,  1U,  30U, 2U,  3U,  6U,  7U,  8U,  10U, 11U, 12U, 13U, 14U, 16U,
        17U, 18U, 19U, 20U, 21U, 22U, 23U, 29U, 34U, 35U, 39U, 40U, 41U, 144U}) {
    TinyModel tiny = mixed();
    tiny.n_layers = 1;
    tiny.n_kv_heads = {2};
    tiny.type_of = nullptr;
    tiny.dtype = find_dtype(id)->id;
    EXPECT_LT(distance(*tiny.load(), exact(), 5), 0.15) << find_dtype(id)->name;
  }
}

TEST(TinyModel, NamesTheNodeOfANan) {
  TinyModel tiny;
  tiny.edit = [](const std::string& name, std::vector<float>& values) {
    if (name == "blk.1.ffn_up.weight") values[5] = std::numeric_limits<float>::quiet_NaN();
  };
  const auto model = tiny.load();
  Session session(*model, exact());
  EXPECT_NE(error_of([&] {
              session.eval(random_tokens(50));
            }).find("got nan at value 5 (node blk.1.ffn_gate_up, tensor blk.1.ffn_up.weight)"),
            std::string::npos);
  EXPECT_EQ(session.tokens().size(), 0U);
}

TEST(Synthetic, IndivisibleRowsGetTheFallbackType) {
  const std::string path = ::testing::TempDir() + "cria-odd-rows.gguf";
  const ModelShape odd = {"odd", 1, 96, 2, 1, 48, 256, 300, 64, "no model"};
  write_synthetic(odd, DType::Q4_K, path);
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight")->dtype, DType::Q5_0)
      << "as when a model is quantized";
  EXPECT_EQ(file.tensor("blk.0.ffn_down.weight")->dtype, DType::Q4_K) << "rows of 256";
  EXPECT_EQ(Model::load(path)->config().n_layers, 1U);
  std::remove(path.c_str());
}

TEST(Synthetic, EveryArchitectureOfTheShapesRuns) {
  const std::string path = ::testing::TempDir() + "cria-every-architecture.gguf";
  for (ModelShape shape : model_shapes()) {
    shape.n_layers = 2;  // the same layers, smaller
    shape.n_embd = 256;
    shape.n_ff = shape.n_vocab = 512;
    for (auto& [key, value] : shape.keys) {
      if (key == "expert_feed_forward_length") value = "256";
      const std::size_t first = value.find(',');
      if (first != std::string::npos)
        value.resize(std::min(value.find(',', first + 1), value.size()));
    }
    for (const DType type : {DType::Q4_K, DType::MXFP4}) {
      write_synthetic(shape, type, path);
      const auto model = Model::load(path);
      const GgufFile& file = model->file();
      EXPECT_TRUE(model->warnings().empty()) << shape.name << ": " << model->warnings().front();
      EXPECT_EQ(file.tensor("token_embd.weight")->dtype, type);
      const std::vector<float> logits = all_logits(*model, exact(), random_tokens(20));
      EXPECT_TRUE(std::ranges::any_of(logits, [](float x) { return std::abs(x) > 0.01F; }))
          << shape.name;
      if (file.tensor("blk.0.ffn_gate_inp.weight") == nullptr) continue;
      EXPECT_EQ(file.tensor("blk.0.ffn_gate_inp.weight")->dtype, DType::F32);
      EXPECT_EQ(file.tensor("blk.0.ffn_down_exps.weight")->dtype, type);
    }
  }
  std::remove(path.c_str());
}

// llama.cpp reads these keys and tensors: without them, it refuses files or their shared experts.
TEST(Synthetic, OtherLoadersFindWhatTheyRequire) {
  const std::string path = ::testing::TempDir() + "cria-required-keys.gguf";
  std::size_t shared = 0;
  for (const ModelShape& shape : model_shapes()) {
    if (shape.keys.empty()) continue;
    write_hollow(shape, DType::Q4_K, path);
    const GgufFile file = GgufFile::open(path);
    const auto has = [&](const char* key) { return file.find(shape.arch + "." + key) != nullptr; };
    if (shape.arch.starts_with("qwen35")) {
      EXPECT_EQ(file.find_ints(shape.arch + ".rope.dimension_sections")->size(), 4U) << shape.name;
    }
    if (shape.arch.starts_with("nemotron_h")) {
      EXPECT_TRUE(has("attention.layer_norm_epsilon")) << shape.name;
      EXPECT_TRUE(has("expert_shared_count") && has("expert_feed_forward_length")) << shape.name;
      EXPECT_NE(file.tensor("blk.1.exp_probs_b.bias"), nullptr) << shape.name;
    }
    for (const TensorView& tensor : file.tensors()) {
      if (!tensor.name.ends_with(".ffn_down_shexp.weight")) continue;
      EXPECT_EQ(file.get_uint(shape.arch + ".expert_shared_feed_forward_length"), tensor.cols())
          << shape.name << " " << tensor.name;
      ++shared;
    }
  }
  EXPECT_GE(shared, 16U + 40U) << "shared experts of two shapes";
  std::remove(path.c_str());
}

TEST(Synthetic, TheMixtureOfExpertsHasThreeBillionParameters) {
  const ModelShape& moe = find_shape("moe");
  const std::string path = ::testing::TempDir() + "cria-moe-plan.gguf";
  ModelShape one = moe;
  one.n_layers = 1;
  write_synthetic(one, DType::IQ1_S, path);
  const auto model = Model::load(path);
  double all = 0;
  double used = 0;
  for (const TensorView& tensor : model->file().tensors()) {
    const bool layer = tensor.name.starts_with("blk.");
    if (layer) all += moe.n_layers * static_cast<double>(tensor.cols() * tensor.rows());
    if (!layer) all += static_cast<double>(tensor.cols() * tensor.rows());
  }
  for (const Node& node : model->graph().nodes)
    used += static_cast<double>(node.macs()) * (node.name.starts_with("blk.") ? moe.n_layers : 1);
  EXPECT_NEAR(all, 3e9, 0.1e9);
  EXPECT_NEAR(used, 0.5e9, 0.05e9);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace cria::test
