#include "engine/model_parts.h"

#include "engine/lora/adapters.h"
#include "engine/model.h"

namespace cria {
namespace {

constexpr std::size_t kPiece = 256;  // bytes of a tensor that are looked at

Hash hash_of_tensors(const GgufFile& file) {
  Hash hash;
  for (const TensorView& tensor : file.tensors()) {
    hash.add(tensor.name.data(), tensor.name.size());
    hash.add_number(static_cast<std::uint64_t>(tensor.dtype));
    for (const std::uint64_t n : tensor.shape) hash.add_number(n);
    hash.add(tensor.data, std::min(tensor.bytes, kPiece));
  }
  return hash;
}

}  // namespace

std::uint64_t weights_fingerprint(const GgufFile& file) { return hash_of_tensors(file).value(); }

std::uint64_t weights_fingerprint(const Model& model) {
  Hash hash = hash_of_tensors(model.file());
  for (const LoraFile& file : model.adapters().files()) hash.add_number(file.scale);
  for (const auto& [tensor, added] : model.adapters().all()) {
    hash.add(tensor.data(), tensor.size());
    hash.add(added.a.data(), added.a.size() * sizeof(float));
    hash.add(added.b.data(), added.b.size() * sizeof(float));
  }
  return hash.value();
}

std::uint64_t file_fingerprint(const Model& model) {
  Hash hash;
  hash.add_number(weights_fingerprint(model));
  hash.add_number(std::uint64_t{model.file().file_bytes()});
  for (const TensorView& tensor : model.file().tensors()) {
    const std::size_t n = std::min(tensor.bytes, kPiece);
    hash.add(tensor.data + tensor.bytes - n, n);
  }
  return hash.value();
}

// The graph's text has all but how YaRN's ramp lies, what divides frequencies, and which of two
// tables a context takes.
std::uint64_t computation_fingerprint(const Model& model, const Graph& graph,
                                      std::size_t rope_ctx) {
  Hash hash;
  hash.add_number(weights_fingerprint(model));
  const std::string text = graph.to_string(false);
  hash.add(text.data(), text.size());
  for (const RopeTable& rope : graph.ropes) {
    const RopeSpec& spec = rope.spec();
    for (const std::vector<float>& divisors : {spec.divisors, spec.long_divisors})
      hash.add(divisors.data(), divisors.size() * sizeof(float));
    for (const double beta : {spec.beta_fast, spec.beta_slow}) hash.add_number(beta);
    hash.add_number(std::uint32_t{!spec.long_divisors.empty() && rope_ctx > spec.orig_ctx});
  }
  return hash.value();
}

std::uint64_t vocabulary_fingerprint(const Vocabulary& vocabulary) {
  Hash hash;
  for (const std::string_view token : vocabulary.tokens) {
    hash.add_number(std::uint64_t{token.size()});
    hash.add(token.data(), token.size());
  }
  return hash.value();
}

}  // namespace cria
