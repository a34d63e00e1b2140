#include "engine/architectures/hf_form.h"

#include <algorithm>

#include "engine/architectures/architecture.h"

namespace cria {

const HfForms& hf_forms() {
  static const HfForms forms = [] {
    HfForms list;
    for (const Architecture& architecture : architectures()) {
      if (architecture.hf == nullptr) continue;
      const std::size_t first = list.size();
      architecture.hf(list);
      for (std::size_t i = first; i < list.size(); ++i)
        list[i].model_class.arch = architecture.name;
    }
    return list;
  }();
  return forms;
}

const HfForm* find_hf_form(std::string_view class_name) noexcept {
  const auto found = std::ranges::find_if(
      hf_forms(), [&](const HfForm& form) { return form.model_class.name == class_name; });
  return found == hf_forms().end() ? nullptr : &*found;
}

std::span<const std::string_view> hf_wrappers() noexcept {
  static constexpr std::string_view kNames[] = {
      "Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration",
      "Llama4ForConditionalGeneration", "Mistral3ForConditionalGeneration",
      "LlavaForConditionalGeneration",  "AyaVisionForConditionalGeneration"};
  return kNames;
}

const HfForm* find_hf_form_of_type(std::string_view model_type) noexcept {
  const auto found = std::ranges::find_if(
      hf_forms(), [&](const HfForm& form) { return form.model_class.model_type == model_type; });
  return found == hf_forms().end() ? nullptr : &*found;
}

std::vector<const HfForm*> hf_forms_of(std::string_view arch) {
  std::vector<const HfForm*> forms;
  for (const HfForm& form : hf_forms())
    if (form.model_class.arch == arch) forms.push_back(&form);
  return forms;
}

std::vector<const HfClass*> hf_classes() {
  std::vector<const HfClass*> classes;
  for (const HfForm& form : hf_forms()) classes.push_back(&form.model_class);
  return classes;
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
  if (name.ends_with(".weight") || name.ends_with(".bias") || name.ends_with(".scale"))
    return kNone;
  return kEndings;
}

std::vector<HfTensor> join(std::initializer_list<std::span<const HfTensor>> lists) {
  std::vector<HfTensor> all;
  for (const std::span<const HfTensor> list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace cria
