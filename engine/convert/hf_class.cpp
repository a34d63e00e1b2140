#include "engine/convert/hf_class.h"

#include <algorithm>

#include "engine/convert/families/families.h"

namespace cria {
namespace {

template <typename Member>
const HfClass* find_class(Member HfClass::*member, std::string_view value) {
  const auto found = std::ranges::find(hf_classes(), value, member);
  return found == hf_classes().end() ? nullptr : &*found;
}

}  // namespace

std::span<const HfClass> hf_classes() {
  static const std::vector<HfClass> classes = [] {
    std::vector<HfClass> all;
    for (auto family : {hf::hybrid, hf::mamba1, hf::mamba2, hf::llama_like, hf::gemma,
                        hf::other_blocks, hf::deepseek_like, hf::encoders})
      std::ranges::move(family(), std::back_inserter(all));
    return all;
  }();
  return classes;
}

const HfClass* find_hf_class(std::string_view name) { return find_class(&HfClass::name, name); }
const HfClass* find_hf_class_of_type(std::string_view model_type) {
  return find_class(&HfClass::model_type, model_type);
}

std::span<const std::string_view> hf_wrappers() noexcept {
  static constexpr std::string_view kNames[] = {
      "Gemma3ForConditionalGeneration",    "Gemma3nForConditionalGeneration",
      "Gemma4ForConditionalGeneration",    "Llama4ForConditionalGeneration",
      "Mistral3ForConditionalGeneration",  "LlavaForConditionalGeneration",
      "AyaVisionForConditionalGeneration", "Qwen3_5ForConditionalGeneration",
      "Qwen3_5MoeForConditionalGeneration"};
  return kNames;
}

std::string with_number(std::string_view text, char mark, std::uint64_t number) {
  std::string out(text);
  if (const std::size_t at = out.find(mark); at != std::string::npos)
    out.replace(at, 1, std::to_string(number));
  return out;
}

std::span<const std::string_view> endings_of(const HfTensor& tensor) {
  static constexpr std::string_view kEndings[] = {".weight", ".bias"}, kNone[] = {""};
  const std::string_view name = tensor.gguf;
  if (name.ends_with(".weight") || name.ends_with(".bias") || name.ends_with(".scale") ||
      tensor.hf.ends_with(".weight") || is_decay(tensor.rows) || tensor.rows == HfRows::Flat)
    return kNone;
  return kEndings;
}

}  // namespace cria
