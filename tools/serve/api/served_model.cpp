#include "tools/serve/api/served_model.h"

#include <ctime>
#include <filesystem>

#include "engine/model_parts.h"

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

}  // namespace

ServedModel ServedModel::of(std::shared_ptr<const Model> model,
                            std::shared_ptr<const ChatTemplate> chat_template,
                            std::optional<CallForm> calls, const std::string& alias) {
  ServedModel out;
  out.id = alias.empty() ? file_name(model->path()) : alias;
  out.fingerprint = program_fingerprint(*model);
  out.created = static_cast<std::int64_t>(std::time(nullptr));
  out.model = std::move(model);
  out.chat_template = std::move(chat_template);
  out.calls = calls;
  return out;
}

tools::RequestJson ServedModel::json(std::size_t n_ctx) const {
  std::uint64_t values = 0, bytes = 0;
  for (const TensorView& tensor : model->file().tensors()) {
    values += tensor.cols() * tensor.rows();
    bytes += tensor.bytes;
  }
  return {{"id", id},
          {"object", "model"},
          {"created", created},
          {"owned_by", "cria"},
          {"meta",
           {{"n_ctx", n_ctx},
            {"n_ctx_train", model->context_length()},
            {"n_vocab", model->vocabulary_size()},
            {"n_embd", model->config().n_embd},
            {"n_params", values},
            {"size", bytes}}}};
}

}  // namespace cria::serve
