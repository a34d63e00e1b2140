#include "tools/options/overrides.h"

#include <limits>
#include <type_traits>

#include "tools/options/command.h"
#include "tools/options/metadata_value.h"

namespace cria::tools {
namespace {

constexpr const char* kOverride = "--override-kv";
constexpr const char* kMetadataGroup = "Metadata and RoPE";

/// llama.cpp's names of types: int, float, str (bool is the same).
std::string with_gguf_type(const std::string& text) {
  for (const auto& [name, type] :
       {std::pair{"=int:", "=i64:"}, {"=float:", "=f64:"}, {"=str:", "=string:"}}) {
    const std::size_t at = text.find('=');
    if (at != std::string::npos && std::string_view(text).substr(at).starts_with(name))
      return text.substr(0, at) + type + text.substr(at + std::string_view(name).size());
  }
  return text;
}

MetadataOverride parse_override(const std::string& text) {
  auto [key, data] = parse_metadata(kOverride, with_gguf_type(text));
  MetadataOverride out{std::move(key), {}};
  std::visit(
      [&out, &text](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, GgufArray>) {
          throw CLI::ValidationError(kOverride,
                                     "expected a number, true, false or a text, got an array");
        } else if constexpr (std::is_same_v<T, std::uint64_t>) {
          if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            throw CLI::ValidationError(kOverride, "number too large: " + text);
          out.value = static_cast<std::int64_t>(value);
        } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
          out.value = value;
        } else if constexpr (std::is_floating_point_v<T>) {
          out.value = double{value};
        } else {
          out.value = std::int64_t{value};
        }
      },
      static_cast<const GgufDataVariant&>(data));
  return out;
}

}  // namespace

void add_override_options(CLI::App& command, OverrideOptions& options) {
  const CLI::Validator is_positive = range(1e-9, 1e12);
  const auto positive = [&](const std::string& name, auto& value, const std::string& help) {
    command.add_option(name, value, help)
        ->type_name("N")
        ->check(is_positive)
        ->group(kMetadataGroup);
  };
  command
      .add_option(kOverride, options.keys,
                  "use this value instead of the one in the model's metadata; may be repeated")
      ->type_name("KEY=TYPE:VALUE")
      ->allow_extra_args(false)
      ->group(kMetadataGroup);
  command
      .add_option("--rope-scaling", options.rope_scaling,
                  "how positions are scaled (default: as the file says)")
      ->check(CLI::IsMember({"none", "linear", "yarn"}))
      ->group(kMetadataGroup);
  positive("--rope-scale", options.rope_factor,
           "scale positions for a context N times the trained one");
  positive("--rope-freq-base", options.rope_base, "base of RoPE's frequencies");
  command
      .add_option_function<double>(
          "--rope-freq-scale", [&options](const double& scale) { options.rope_factor = 1 / scale; },
          "1 / --rope-scale")
      ->type_name("N")
      ->check(is_positive)
      ->group(kMetadataGroup);
  positive("--yarn-orig-ctx", options.yarn_orig_ctx,
           "YaRN: size of the trained context, in tokens");
  positive("--yarn-attn-factor", options.yarn_attn_factor,
           "YaRN: factor of the attention's magnitude");
  positive("--yarn-beta-fast", options.yarn_beta_fast,
           "YaRN: turns from which a dimension keeps its frequency");
  positive("--yarn-beta-slow", options.yarn_beta_slow,
           "YaRN: turns up to which a dimension is interpolated");
}

std::vector<MetadataOverride> metadata_overrides(const OverrideOptions& options) {
  std::vector<MetadataOverride> out;
  for (const std::string& text : options.keys) out.push_back(parse_override(text));
  const auto add = [&out](const char* key, const auto& value) {
    if (value) out.push_back({key, *value});
  };
  if (!options.rope_scaling.empty()) out.push_back({".rope.scaling.type", options.rope_scaling});
  add(".rope.scaling.factor", options.rope_factor);
  add(".rope.freq_base", options.rope_base);
  add(".rope.scaling.original_context_length", options.yarn_orig_ctx);
  add(".rope.scaling.attn_factor", options.yarn_attn_factor);
  add(".rope.scaling.yarn_beta_fast", options.yarn_beta_fast);
  add(".rope.scaling.yarn_beta_slow", options.yarn_beta_slow);
  return out;
}

}  // namespace cria::tools
