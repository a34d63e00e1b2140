#include "engine/session/fingerprint.h"

#include "engine/lora/adapters.h"
#include "engine/model.h"
#include "engine/model_parts.h"

namespace cria {

std::uint64_t fingerprint(const Model& model) {
  Hash hash;
  for (const TensorView& tensor : model.file().tensors()) {
    hash.add(tensor.name.data(), tensor.name.size());
    hash.add_number(static_cast<std::uint64_t>(tensor.dtype));
    for (const std::uint64_t n : tensor.shape) hash.add_number(n);
    hash.add(tensor.data, std::min<std::size_t>(tensor.bytes, 256));
  }
  for (const auto& [tensor, added] : model.adapters().all()) {
    hash.add(tensor.data(), tensor.size());
    hash.add(added.a.data(), added.a.size() * sizeof(float));
    hash.add(added.b.data(), added.b.size() * sizeof(float));
  }
  return hash.value();
}

std::uint64_t fingerprint(const Vocabulary& vocabulary) {
  Hash hash;
  for (const std::string_view token : vocabulary.tokens) {
    hash.add_number(std::uint64_t{token.size()});
    hash.add(token.data(), token.size());
  }
  return hash.value();
}

}  // namespace cria
