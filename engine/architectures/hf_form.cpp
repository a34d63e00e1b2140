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
      for (std::size_t i = first; i < list.size(); ++i) list[i].model_class.arch = architecture.name;
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

const HfForm* export_form(std::string_view arch) noexcept {
  const auto found = std::ranges::find_if(hf_forms(), [&](const HfForm& form) {
    return form.model_class.exported && form.model_class.arch == arch;
  });
  return found == hf_forms().end() ? nullptr : &*found;
}

std::vector<const HfClass*> hf_classes(bool exported_only) {
  std::vector<const HfClass*> classes;
  for (const HfForm& form : hf_forms())
    if (!exported_only || form.model_class.exported) classes.push_back(&form.model_class);
  return classes;
}

std::vector<HfTensor> join(std::initializer_list<std::span<const HfTensor>> lists) {
  std::vector<HfTensor> all;
  for (const std::span<const HfTensor> list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace cria
