#include "tools/serve/models/served_model.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>

#include "engine/model_parts.h"
#include "engine/quantize/plan.h"

namespace cria::serve {

std::string file_name(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.extension() == ".gguf" ? name.stem().string() : name.string();
}

namespace {

std::string program_fingerprint(const Model& model) {
  constexpr std::string_view kVersion = CRIA_VERSION;
  Hash hash;
  hash.add(kVersion.data(), kVersion.size());
  hash.add_number(weights_fingerprint(model));
  char text[32];
  std::snprintf(text, sizeof text, "fp_%016llx", static_cast<unsigned long long>(hash.value()));
  return text;
}

std::string digest_of(const GgufFile& file) {
  const std::uint64_t weights = weights_fingerprint(file);
  std::string text;
  for (std::uint64_t part = 0; part < 4; ++part) {
    Hash hash;
    hash.add_number(weights);
    hash.add_number(part);
    char digits[24];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash.value()));
    text += digits;
  }
  return text;
}

std::int64_t modification_time(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::filesystem::file_time_type::clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

ModelCard card_of(const Model& model) {
  const GgufFile& file = model.file();
  const ModelConfig& config = model.config();
  ModelCard card;
  card.architecture = config.arch;
  const Head head = model.graph().head;
  card.output = head == Head::Vocabulary ? "text" : head == Head::Labels ? "rerank" : "embeddings";
  card.digest = digest_of(file);
  card.n_ctx_train = config.n_ctx_train;
  card.n_vocab = config.n_vocab;
  card.n_embd = config.n_embd;
  card.file_bytes = file.file_bytes();
  card.modified = modification_time(file.path());
  std::map<DType, std::uint64_t> values;
  for (const TensorView& tensor : file.tensors()) {
    card.n_params += tensor.cols() * tensor.rows();
    card.tensor_bytes += tensor.bytes;
    values[tensor.dtype] += tensor.cols() * tensor.rows();
  }
  if (const auto most = most_of(values)) card.main_type = name(*most);
  return card;
}

}  // namespace

ServedModel ServedModel::of(std::shared_ptr<const Model> model,
                            std::shared_ptr<const ChatTemplate> chat_template,
                            std::optional<CallForm> calls, const std::string& alias) {
  ServedModel out;
  out.id = alias.empty() ? file_name(model->path()) : alias;
  out.fingerprint = program_fingerprint(*model);
  out.card = card_of(*model);
  out.model = std::move(model);
  out.chat_template = std::move(chat_template);
  out.calls = calls;
  return out;
}

}  // namespace cria::serve
