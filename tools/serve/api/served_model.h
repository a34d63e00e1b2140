// The model as clients see it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/session.h"
#include "tools/options/fields.h"

namespace cria::serve {

/// The name of a model that has no other: its file's, without ".gguf".
std::string file_name(const std::string& path);

struct ServedModel {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const ChatTemplate> chat_template;
  std::optional<CallForm> calls;  ///< how it calls tools; default: as its template says
  std::string id;                 ///< its name
  std::string fingerprint;        ///< of program and model
  std::int64_t created = 0;       ///< seconds since 1970

  /// alias: its name, or "" for that of the file.
  static ServedModel of(std::shared_ptr<const Model> model,
                        std::shared_ptr<const ChatTemplate> chat_template,
                        std::optional<CallForm> calls, const std::string& alias);
  /// As /v1/models has it.
  [[nodiscard]] tools::RequestJson json(std::size_t n_ctx) const;
};

}  // namespace cria::serve
