// The mixes and their rules. A mix has the same types as elsewhere, so files of the same name are
// comparable. The table records other projects' measurements of which tensors deserve more bits.
#include <algorithm>
#include <array>

#include "engine/quantize/plan.h"

namespace cria {
namespace {

constexpr std::array kMixes = {
    Mix{"F32", 0, DType::F32},          Mix{"BF16", 32, DType::BF16},
    Mix{"F16", 1, DType::F16},          Mix{"Q8_0", 7, DType::Q8_0},
    Mix{"Q6_K", 18, DType::Q6_K},       Mix{"Q5_1", 9, DType::Q5_1},
    Mix{"Q5_K_M", 17, DType::Q5_K},     Mix{"Q5_K_S", 16, DType::Q5_K},
    Mix{"Q5_0", 8, DType::Q5_0},        Mix{"Q4_1", 3, DType::Q4_1},
    Mix{"Q4_K_M", 15, DType::Q4_K},     Mix{"Q4_K_S", 14, DType::Q4_K},
    Mix{"Q4_0", 2, DType::Q4_0},        Mix{"IQ4_NL", 25, DType::IQ4_NL},
    Mix{"NVFP4", 39, DType::NVFP4},     Mix{"IQ4_XS", 30, DType::IQ4_XS},
    Mix{"IQ4_KS", 145, DType::IQ4_KS},  Mix{"MXFP4", 38, DType::MXFP4},
    Mix{"Q3_K_L", 13, DType::Q3_K},     Mix{"Q3_K_M", 12, DType::Q3_K},
    Mix{"IQ3_M", 27, DType::IQ3_S},     Mix{"Q3_K_S", 11, DType::Q3_K},
    Mix{"IQ3_S", 26, DType::IQ3_S},     Mix{"IQ3_XS", 22, DType::IQ3_S},
    Mix{"IQ3_XXS", 23, DType::IQ3_XXS}, Mix{"Q2_K", 10, DType::Q2_K},
    Mix{"Q2_K_S", 21, DType::Q2_K},     Mix{"IQ2_M", 29, DType::IQ2_S},
    Mix{"IQ2_S", 28, DType::IQ2_XS},    Mix{"IQ2_XS", 20, DType::IQ2_XS},
    Mix{"IQ2_XXS", 19, DType::IQ2_XXS}, Mix{"TQ2_0", 37, DType::TQ2_0},
    Mix{"IQ1_M", 31, DType::IQ1_M},     Mix{"TQ1_0", 36, DType::TQ1_0},
    Mix{"IQ1_S", 24, DType::IQ1_S},     Mix{"Q1_0", 40, DType::Q1_0},
    Mix{"IQ6_K", 142, DType::IQ6_K},    Mix{"IQ5_K", 141, DType::IQ5_K},
    Mix{"IQ5_KS", 150, DType::IQ5_KS},  Mix{"IQ4_K", 140, DType::IQ4_K},
    Mix{"IQ3_K", 139, DType::IQ3_K},    Mix{"IQ2_K", 138, DType::IQ2_K},
    Mix{"Q6_0", 135, DType::Q6_0},      Mix{"IQ4_KSS", 148, DType::IQ4_KSS},
    Mix{"IQ3_KS", 154, DType::IQ3_KS},  Mix{"IQ2_KL", 155, DType::IQ2_KL},
    Mix{"IQ2_KS", 147, DType::IQ2_KS},
};

constexpr std::string_view kSmallest = "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M";
constexpr std::string_view kTwoBits = "IQ2_S IQ2_M";

// clang-format off
constexpr std::array kRules = {
    // With experts of four bits, the matrices that every token uses have eight.
    MixRule{"MXFP4", "output", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "token_embd", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "attn_*", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "ffn_gate", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "ffn_up", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "ffn_down", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "ffn_gate_shexp", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "ffn_up_shexp", Layers::All, Models::Experts, DType::Q8_0},
    MixRule{"MXFP4", "ffn_down_shexp", Layers::All, Models::Experts, DType::Q8_0},

    // The output matrix affects every token; the embedding is only looked up.
    MixRule{"Q8_0", "output", Layers::All, Models::All, DType::Q8_0},
    MixRule{"IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS", "output", Layers::All, Models::All, DType::Q5_K},
    MixRule{"*", "output", Layers::All, Models::All, DType::Q6_K},
    MixRule{"IQ1_S IQ1_M IQ2_XXS IQ2_XS", "token_embd", Layers::All, Models::All, DType::Q2_K},
    MixRule{"IQ1_S IQ1_M IQ2_XXS IQ2_XS", "per_layer_token_embd", Layers::All, Models::All, DType::Q2_K},
    MixRule{"IQ2_S IQ2_M IQ3_XXS", "token_embd", Layers::All, Models::All, DType::IQ3_S},
    MixRule{"IQ2_S IQ2_M IQ3_XXS", "per_layer_token_embd", Layers::All, Models::All, DType::IQ3_S},
    MixRule{"TQ1_0 TQ2_0 Q1_0", "token_embd", Layers::All, Models::All, DType::Q4_K},
    MixRule{"TQ1_0 TQ2_0 Q1_0", "per_layer_token_embd", Layers::All, Models::All, DType::Q4_K},

    // About two bits and less: small or early matrices get more.
    MixRule{kSmallest, "attn_v", Layers::All, Models::GroupedOrExperts, DType::Q4_K},
    MixRule{kTwoBits, "attn_v", Layers::All, Models::All, DType::IQ3_S},
    MixRule{kSmallest, "attn_v", Layers::All, Models::All, DType::Q2_K},
    MixRule{kSmallest, "attn_k", Layers::All, Models::EightExperts, DType::Q4_K},
    MixRule{kTwoBits, "ffn_down*", Layers::FirstEighth, Models::All, DType::IQ3_S},
    MixRule{kSmallest, "ffn_down*", Layers::FirstEighth, Models::All, DType::Q2_K},
    MixRule{kSmallest, "attn_output", Layers::All, Models::EightExperts, DType::Q5_K},
    MixRule{"IQ1_S IQ1_M", "attn_output", Layers::All, Models::All, DType::IQ2_XXS},
    MixRule{kTwoBits, "attn_output", Layers::All, Models::All, DType::IQ3_S},

    // Values: each error adds to the output of attention.
    MixRule{"*", "attn_v", Layers::All, Models::EightExperts, DType::Q8_0},
    MixRule{"Q4_K_M Q5_K_M", "attn_v", Layers::Spread, Models::All, DType::Q6_K},
    MixRule{"Q3_K_S Q3_K_M Q4_K_S Q4_K_M", "attn_v", Layers::All, Models::Large, DType::Q5_K},
    MixRule{"Q2_K Q2_K_S IQ3_XXS IQ3_XS IQ3_S IQ3_M", "attn_v", Layers::All, Models::Large, DType::Q5_K},
    MixRule{"Q2_K Q2_K_S IQ3_XXS IQ3_XS IQ3_S", "attn_v", Layers::All, Models::Grouped, DType::Q4_K},
    MixRule{"Q2_K", "attn_v", Layers::All, Models::All, DType::Q3_K},
    MixRule{"IQ3_XXS", "attn_v", Layers::All, Models::Unweighted, DType::IQ3_S},
    MixRule{"IQ3_M", "attn_v", Layers::All, Models::All, DType::Q4_K},
    MixRule{"Q3_K_M", "attn_v", Layers::First2, Models::All, DType::Q5_K},
    MixRule{"Q3_K_M", "attn_v", Layers::All, Models::All, DType::Q4_K},
    MixRule{"Q3_K_L", "attn_v", Layers::All, Models::All, DType::Q5_K},
    MixRule{"IQ4_NL IQ4_XS IQ4_KS", "attn_v", Layers::All, Models::Grouped, DType::Q5_K},
    MixRule{"IQ4_K", "attn_v", Layers::All, Models::Grouped, DType::IQ5_K},
    MixRule{"IQ3_K", "attn_v", Layers::All, Models::Grouped, DType::IQ4_K},
    MixRule{"Q4_K_S", "attn_v", Layers::First4, Models::All, DType::Q5_K},

    // Fused queries, keys and values.
    MixRule{"Q3_K_M Q3_K_L IQ3_M", "attn_qkv", Layers::All, Models::All, DType::Q4_K},
    MixRule{"Q4_K_M", "attn_qkv", Layers::All, Models::All, DType::Q5_K},
    MixRule{"Q5_K_M", "attn_qkv", Layers::All, Models::All, DType::Q6_K},

    // The softmax averages errors of keys and queries.
    MixRule{"*", "attn_k", Layers::All, Models::EightExperts, DType::Q8_0},
    MixRule{"IQ3_XS", "attn_k", Layers::All, Models::All, DType::IQ3_XXS},
    MixRule{"IQ3_XS", "attn_q", Layers::All, Models::All, DType::IQ3_XXS},
    MixRule{"IQ3_XXS", "attn_k", Layers::All, Models::All, DType::IQ2_S},
    MixRule{"IQ3_XXS", "attn_q", Layers::All, Models::All, DType::IQ2_S},

    // The down projection of the feed-forward part.
    MixRule{"Q2_K", "ffn_down*", Layers::All, Models::All, DType::Q3_K},
    MixRule{"Q2_K_S", "ffn_down*", Layers::FirstEighth, Models::All, DType::Q4_K},
    MixRule{"IQ3_XXS", "ffn_down*", Layers::FirstEighth, Models::Unweighted, DType::Q4_K},
    MixRule{"IQ3_XXS", "ffn_down*", Layers::All, Models::Unweighted, DType::Q3_K},
    MixRule{"IQ3_M", "ffn_down*", Layers::FirstEighth, Models::All, DType::Q4_K},
    MixRule{"IQ3_M", "ffn_down*", Layers::Spread, Models::EightExperts, DType::Q4_K},
    MixRule{"Q3_K_M", "ffn_down*", Layers::FirstSixteenth, Models::All, DType::Q5_K},
    MixRule{"Q3_K_M", "ffn_down*", Layers::All, Models::All, DType::Q4_K},
    MixRule{"Q3_K_L", "ffn_down*", Layers::All, Models::All, DType::Q5_K},
    MixRule{"Q4_K_M Q5_K_M", "ffn_down*", Layers::Spread, Models::All, DType::Q6_K},
    MixRule{"Q4_K_S", "ffn_down*", Layers::FirstEighth, Models::All, DType::Q5_K},
    MixRule{"IQ4_NL IQ4_XS IQ4_KS", "ffn_down*", Layers::FirstEighth, Models::Unweighted, DType::Q5_K},
    MixRule{"Q4_0", "ffn_down*", Layers::FirstEighth, Models::Weighted, DType::Q4_1},
    MixRule{"Q5_0", "ffn_down*", Layers::FirstEighth, Models::Weighted, DType::Q5_1},

    MixRule{"Q2_K Q3_K_S Q3_K_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_XS IQ4_NL Q4_K_S Q4_K_M", "attn_output", Layers::All, Models::EightExperts, DType::Q5_K},
    MixRule{"Q3_K_L", "attn_output", Layers::All, Models::EightExperts, DType::Q3_K},
    MixRule{"Q2_K", "attn_output", Layers::All, Models::All, DType::Q3_K},
    MixRule{"IQ3_XXS", "attn_output", Layers::All, Models::All, DType::IQ3_S},
    MixRule{"Q3_K_M IQ3_M", "attn_output", Layers::All, Models::All, DType::Q4_K},
    MixRule{"Q3_K_L", "attn_output", Layers::All, Models::All, DType::Q5_K},

    MixRule{"IQ3_XS", "ffn_gate*", Layers::Middle, Models::All, DType::IQ3_XXS},
    MixRule{"IQ3_XS", "ffn_up*", Layers::Middle, Models::All, DType::IQ3_XXS},
};

constexpr std::array kFallbacks = {
    Fallback{DType::Q2_K, DType::IQ4_NL},    Fallback{DType::Q3_K, DType::IQ4_NL},
    Fallback{DType::IQ1_S, DType::IQ4_NL},   Fallback{DType::IQ1_M, DType::IQ4_NL},
    Fallback{DType::IQ2_XXS, DType::IQ4_NL}, Fallback{DType::IQ2_XS, DType::IQ4_NL},
    Fallback{DType::IQ2_S, DType::IQ4_NL},   Fallback{DType::IQ3_XXS, DType::IQ4_NL},
    Fallback{DType::IQ3_S, DType::IQ4_NL},   Fallback{DType::IQ4_XS, DType::IQ4_NL},
    Fallback{DType::TQ1_0, DType::Q4_0},     Fallback{DType::TQ2_0, DType::Q4_0},
    Fallback{DType::Q4_K, DType::Q5_0},      Fallback{DType::Q5_K, DType::Q5_1},
    Fallback{DType::Q6_K, DType::Q8_0},     Fallback{DType::IQ4_KS, DType::IQ4_NL},
    Fallback{DType::IQ2_K, DType::IQ4_NL},   Fallback{DType::IQ3_K, DType::IQ4_NL},
    Fallback{DType::IQ4_K, DType::Q5_0},     Fallback{DType::IQ5_K, DType::Q5_1},
    Fallback{DType::IQ5_KS, DType::Q5_1},    Fallback{DType::IQ6_K, DType::Q8_0},
    Fallback{DType::IQ2_KS, DType::IQ4_NL},  Fallback{DType::IQ3_KS, DType::IQ4_NL},
    Fallback{DType::IQ2_KL, DType::IQ4_NL},  Fallback{DType::IQ4_KSS, DType::IQ4_NL},
    Fallback{DType::NVFP4, DType::MXFP4},    Fallback{DType::Q1_0, DType::Q4_0},
};
// clang-format on

constexpr std::array<std::string_view, 7> kLayerNames{
    "all", "first 2", "first 4", "first 1/16", "first 1/8", "middle 6/8", "spread"};
constexpr std::array<std::string_view, 8> kModelNames{"all",
                                                      "4+ heads per key",
                                                      "4+ heads per key or experts",
                                                      "80 layers, shared keys",
                                                      "experts",
                                                      "8 experts",
                                                      "with imatrix",
                                                      "without imatrix"};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

std::span<const Mix> mixes() noexcept { return kMixes; }
std::span<const MixRule> mix_rules() noexcept { return kRules; }
std::span<const Fallback> fallbacks() noexcept { return kFallbacks; }

std::string_view name(Layers layers) noexcept {
  return kLayerNames[static_cast<std::size_t>(layers)];
}
std::string_view name(Models models) noexcept {
  return kModelNames[static_cast<std::size_t>(models)];
}

const Mix* find_mix(std::string_view name) noexcept {
  const auto equal = [](std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, upper, upper);
  };
  const bool medium = equal(name, "Q3_K") || equal(name, "Q4_K") || equal(name, "Q5_K");
  const auto* found = std::ranges::find_if(kMixes, [&](const Mix& mix) {
    return equal(mix.name, name) ||
           (medium && mix.name.ends_with("_M") && equal(mix.name.substr(0, 4), name));
  });
  return found == kMixes.end() ? nullptr : found;
}

}  // namespace cria
