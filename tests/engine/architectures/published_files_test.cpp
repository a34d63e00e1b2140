// Peculiarities of published files: other names, keys and tensors, and unknown keys that would
// change the text.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/architectures/hostile_edits.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

// Converters write the type for classes whose factors they do not know.
TEST(Architecture, LongropeWithoutFactors) {
  TinyArchitecture tiny({"x", "llama", {}, {}, 0});
  const auto want = tiny.load();
  tiny.keys["llama.rope.scaling.type"] = std::string("longrope");
  const auto got = tiny.load();
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  EXPECT_EQ(got->warnings().size(), want->warnings().size() + 1);
  tiny.tensors.push_back({"rope_factors_short.weight", {8}});
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("missing tensor"), std::string::npos);
}

TEST(Architecture, RejectsUnknownDecisiveKeys) {
  for (const auto& [key, value] :
       std::map<std::string, GgufData>{{"attn_logit_softcapping", 50.0F},
                                       {"logit_scale", 0.5F},
                                       {"attention.clamp_kqv", 8.0F},
                                       {"nextn_predict_layers", 1U},
                                       {"attention.causal", false},
                                       {"attention.value_scale", 0.5F},
                                       {"attention.output_scale", 0.5F},
                                       {"expert_weights_scale", 2.0F},
                                       {"rope.scaling.yarn_ext_factor", 0.5F},
                                       {"rope.scaling.alpha", 1000.0F},
                                       {"expert_count", 4U}}) {
    TinyArchitecture tiny({"x", "qwen3", {}, {}, 0});
    tiny.keys["qwen3." + key] = value;
    if (key == "expert_count") tiny.keys["qwen3.expert_used_count"] = 2U;
    try {
      (void)tiny.load();
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("(key qwen3." + key + ")"), std::string::npos)
          << error.what();
    }
  }
}

// In published files, layers that share keys and values have their own as well.
TEST(Architecture, ReadsOwnKeysAndSharedOnes) {
  const ArchitectureCase c = architecture_case("gemma4");
  const auto want = TinyArchitecture(c).load();
  TinyArchitecture more(c);
  for (const auto& [name, length] :
       std::map<std::string, std::uint64_t>{{"attn_k", 32}, {"attn_v", 32}})
    more.tensors.push_back({"blk.2." + name + ".weight", {64, length}});
  more.tensors.push_back({"blk.2.attn_k_norm.weight", {16}});
  const auto got = more.load();
  EXPECT_EQ(got->warnings().size(), want->warnings().size() + 1);
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  more.tensors.push_back({"blk.1.attn_v_norm.weight", {16}});
  EXPECT_NE(
      error_of([&] { (void)more.load(); }).find("a norm that this architecture does not have"),
      std::string::npos);
}

// The rows of queries and keys in the order of halves: the same model.
TEST(Architecture, SectionsMeanHalves) {
  TinyArchitecture pairs(architecture_case("glm4"));
  pairs.matrix_type = DType::F32;  // nothing is quantized
  TinyArchitecture halves = pairs;
  halves.keys["glm4.rope.dimension_sections"] =
      GgufArray::of(std::vector<std::int32_t>{2, 1, 1, 0});
  halves.edit = [](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (!t.name.ends_with("attn_q.weight") && !t.name.ends_with("attn_k.weight")) return;
    const std::vector<float> old = values;
    for (std::size_t row = 0; row < old.size() / 64; ++row) {
      const std::size_t i = row % 16, from = i < 8 ? row - i + 2 * (i % 4) + i / 4 : row;
      std::copy_n(old.data() + from * 64, 64, values.data() + row * 64);
    }
  };
  const auto run = [](const TinyArchitecture& tiny) {
    SessionOptions options;
    options.n_ctx = 64;
    options.threads = 1;
    options.kv_type = KvType::F32;
    return architecture_logits(*tiny.load(), options, 24);
  };
  const std::vector<float> want = run(pairs), got = run(halves);
  double squares = 0;
  for (const float x : want) squares += double{x} * x;
  EXPECT_NEAR(checksum(got), checksum(want), 1e-3 * std::sqrt(squares)) << "order of sums differs";
  halves.keys["glm4.rope.dimension_sections"] =
      GgufArray::of(std::vector<std::int32_t>{0, 0, 0, 0});
  EXPECT_GT(std::abs(checksum(run(halves)) - checksum(want)), 0.1 * std::sqrt(squares));
}

TEST(Architecture, SectionsOfAdjacentPairsAreRefused) {
  for (const std::string key : {"rope.dimension_sections", "rope.mrope_section"}) {
    for (const std::string arch : {"llama", "qwen3"}) {
      TinyArchitecture tiny({"x", arch, {}, {}, 0});
      tiny.keys[arch + "." + key] = GgufArray::of(std::vector<std::int32_t>{2, 3, 3, 0});
      EXPECT_EQ(
          error_of([&] { (void)tiny.load(); }).find("(key llama." + key + ")") != std::string::npos,
          arch == "llama");
      tiny.keys[arch + "." + key] = GgufArray::of(std::vector<std::int32_t>{0, 0, 0, 0});
      EXPECT_NO_THROW((void)tiny.load());
    }
  }
}

TEST(Architecture, DoesNotRunMtpLayers) {
  for (const char* name : {"glm4", "glm4moe", "exaone4", "deepseek2"}) {
    TinyArchitecture tiny(architecture_case(name));
    const std::string want = tiny.load()->graph().to_string();
    tiny.keys[tiny.arch + ".block_count"] = 5U;
    tiny.keys[tiny.arch + ".nextn_predict_layers"] = 1U;
    for (const char* tensor : {"attn_norm", "attn_k_norm", "nextn.enorm", "nextn.shared_head_norm"})
      tiny.tensors.push_back({std::string("blk.4.") + tensor + ".weight", {64}});
    EXPECT_EQ(tiny.load()->graph().to_string(), want) << name;
  }
}

// EXAONE 4.5's arrays omit the MTP layer; arrays of other files include it.
TEST(Architecture, AcceptsArraysWithoutMtpLayers) {
  TinyArchitecture tiny(architecture_case("exaone4"));
  const std::string want = tiny.load()->graph().to_string();
  tiny.keys["exaone4.block_count"] = 5U;
  tiny.keys["exaone4.nextn_predict_layers"] = 1U;
  const auto load_with = [&](std::size_t length) {
    std::vector<bool> windows = {true, true, true, false, true, true};
    windows.resize(length);
    tiny.keys["exaone4.attention.sliding_window_pattern"] = GgufArray::of(windows);
    tiny.keys["exaone4.attention.head_count"] =
        GgufArray::of(std::vector<std::uint32_t>(length, 4));
    return tiny.load();
  };
  for (const std::size_t length : {4U, 5U})
    EXPECT_EQ(load_with(length)->graph().to_string(), want) << length;
  for (const std::size_t length : {3U, 6U})
    EXPECT_NE(error_of([&] { (void)load_with(length); }).find("wrong length of an array"),
              std::string::npos);
  tiny.keys["exaone4.nextn_predict_layers"] = 0U;
  EXPECT_NE(error_of([&] { (void)load_with(4); }).find("wrong length of an array"),
            std::string::npos);
}

// softplus(x) is x if exp(x) overflows.
TEST(Architecture, XieluOfLargeNumbers) {
  TinyArchitecture tiny(architecture_case("apertus"));
  for (const char* key : {"xielu.alpha_p", "xielu.alpha_n"}) tiny.keys[key] = 100.0F;
  for (const float logit : architecture_logits(*tiny.load(), {.n_ctx = 64, .threads = 1}, 24))
    ASSERT_TRUE(std::isfinite(logit));
  const std::string text = tiny.load()->graph().to_string();
  EXPECT_NE(text.find("xielu of 100, 100.5, 0.5, -1e-06"), std::string::npos) << text;
}

TEST(Architecture, RejectsInfiniteScalarTensors) {
  TinyArchitecture tiny(architecture_case("gemma4"));
  const auto scale = std::ranges::find(tiny.tensors, "blk.1.layer_output_scale.weight",
                                       &TinyArchitecture::Tensor::name);
  ASSERT_NE(scale, tiny.tensors.end());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    scale->fill = bad;
    const std::string error = error_of([&] { (void)tiny.load(); });
    EXPECT_NE(error.find("bad number: expected a finite number, got "), std::string::npos) << error;
    EXPECT_TRUE(error.ends_with("(tensor blk.1.layer_output_scale.weight)")) << error;
  }
}

// An architecture that knows none is refused, however long its arrays are.
TEST(Architecture, RejectsMtpLayersOfOtherArchitectures) {
  TinyArchitecture tiny(architecture_case("gemma4"));
  tiny.keys["gemma4.nextn_predict_layers"] = 1U;
  tiny.keys["gemma4.attention.sliding_window_pattern"] = flags({1, 0, 1});
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("(key gemma4.nextn_predict_layers)"),
            std::string::npos);
}

TEST(Architecture, Gemma3AsOllamaNamesIt) {
  TinyArchitecture tiny(architecture_case("gemma3"));
  tiny.keys["gemma3.rope.freq_base"] = 1e6F;
  tiny.keys["gemma3.rope.freq_base_swa"] = 20000.0F;
  const std::string want = tiny.load()->graph().to_string();
  for (const char* key : {"gemma3.rope.freq_base", "gemma3.rope.freq_base_swa"})
    tiny.keys.erase(key);
  EXPECT_NE(tiny.load()->graph().to_string(), want);
  tiny.keys["gemma3.rope.global.freq_base"] = 1e6F;
  tiny.keys["gemma3.rope.local.freq_base"] = 20000.0F;
  EXPECT_EQ(tiny.load()->graph().to_string(), want);
}

// With biases in the feed-forward part the models are others.
TEST(Architecture, GraniteMayHaveBiases) {
  for (const char* name : {"granite", "minicpm"}) {
    ArchitectureCase c = architecture_case(name);
    const auto run = [&] {
      return architecture_logits(*TinyArchitecture(c).load(), {.n_ctx = 64, .threads = 1}, 24);
    };
    const std::vector<float> without = run();
    for (const char* tensor : {"*.ffn_gate.bias", "*.ffn_up.bias", "*.ffn_down.bias"}) {
      c.tensors = {{tensor, {tensor == std::string("*.ffn_down.bias") ? 64U : 96U}}};
      EXPECT_NE(run(), without) << tensor;
    }
  }
}

TEST(Architecture, GraniteMayRotateNothing) {
  for (const std::string arch : {"granite", "granitemoe"}) {
    TinyArchitecture tiny(architecture_case(arch));
    const auto rotates = [&] {
      return tiny.load()->graph().to_string().find("no rope") == std::string::npos;
    };
    EXPECT_TRUE(rotates());
    tiny.keys[arch + ".rope.scaling.finetuned"] = true;
    EXPECT_TRUE(rotates());
    tiny.keys[arch + ".rope.scaling.finetuned"] = false;
    EXPECT_FALSE(rotates());
  }
}

// Granite 4 without state spaces still has their keys.
TEST(Architecture, StateSpacesAreTensors) {
  TinyArchitecture tiny(architecture_case("granite"));
  tiny.keys["granite.ssm.state_size"] = 128U;
  tiny.keys["granite.attention.head_count_kv"] = GgufArray::of(std::vector<std::int32_t>(4, 2));
  EXPECT_NO_THROW((void)tiny.load());
  tiny.tensors.push_back({"blk.2.ssm_in.weight", {64, 64}});
  EXPECT_NE(error_of([&] {
              (void)tiny.load();
            }).find("a state space that this architecture does not have"),
            std::string::npos);
}

// Tensors of other families would change the text.
TEST(Architecture, TensorsOfOtherFamiliesAreRefused) {
  const auto error_with = [](const char* name, const char* tensor) {
    TinyArchitecture tiny(architecture_case(name));
    tiny.tensors.push_back({tensor, {64}});
    return error_of([&] { (void)tiny.load(); });
  };
  for (const auto& [arch, tensor] : std::vector<std::pair<const char*, const char*>>{
           {"llama", "output_norm.bias"},
           {"llama", "token_embd_norm.weight"},
           {"llama", "position_embd.weight"},
           {"llama", "blk.2.attn_sinks.weight"},
           {"llama", "blk.2.attn_gate.weight"},
           {"qwen3moe", "blk.2.ffn_gate_inp_shexp.weight"},
           {"olmo", "output_norm.weight"},
           {"arcee", "blk.2.ffn_gate.weight"},
           {"nemotron", "blk.2.ffn_gate.weight"},
           {"apertus", "blk.2.ffn_gate.weight"}}) {
    const std::string error = error_with(arch, tensor);
    EXPECT_NE(error.find("that this architecture does not have"), std::string::npos)
        << tensor << error;
    EXPECT_TRUE(error.ends_with("(tensor " + std::string(tensor) + ")")) << error;
  }
  EXPECT_EQ(error_with("starcoder2", "output_norm.bias"), "");
  EXPECT_EQ(error_with("llama", "blk.2.attn_rot_embd.weight"), "");
  EXPECT_EQ(error_with("llama", "cls.output.weight"), "");
}

// Layer 2 reads the keys and values of layer 0, of four heads.
TEST(Architecture, RejectsIndivisibleHeadCounts) {
  const auto with_heads = [](std::int32_t heads) {
    const std::map<std::string, GgufData> keys = {
        {"attention.sliding_window", 8U},
        {"attention.sliding_window_pattern", flags({1, 0, 1, 0})},
        {"attention.shared_kv_layers", 2U},
        {"attention.head_count", GgufArray::of(std::vector<std::int32_t>{4, 4, heads, 4})},
        {"attention.head_count_kv", GgufArray::of(std::vector<std::int32_t>{4, 4, heads, 4})}};
    return TinyArchitecture({"shared", "gemma4", keys, {}, 0});
  };
  EXPECT_NO_THROW(load_and_run(with_heads(8)));
  for (const std::int32_t heads : {2, 6}) {
    EXPECT_NE(
        error_of([&] { load_and_run(with_heads(heads)); })
            .find("heads of layer 2 do not divide among the KV heads that they share: expected a "
                  "multiple of 4, got " +
                  std::to_string(heads) + " (key gemma4.attention.head_count)"),
        std::string::npos)
        << heads;
  }
}

}  // namespace
}  // namespace cria::test
