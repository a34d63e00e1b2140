// The served model, as clients see it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/session.h"
#include "tools/requests/fields.h"

namespace cria::serve {

/// Returns the name of a file, without ".gguf": the default name of its model.
std::string file_name(const std::string& path);

struct ServedModel {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const ChatTemplate> chat_template;
  std::optional<CallForm> calls;  ///< tool-call format; nullopt: from the template
  std::string id;                 ///< name
  std::string fingerprint;        ///< fingerprint of program and model
  std::int64_t created = 0;       ///< seconds since 1970

  /// alias: the name; "": the name of the file.
  static ServedModel of(std::shared_ptr<const Model> model,
                        std::shared_ptr<const ChatTemplate> chat_template,
                        std::optional<CallForm> calls, const std::string& alias);
  /// Returns the entry of /v1/models.
  [[nodiscard]] tools::RequestJson json(std::size_t n_ctx) const;
};

}  // namespace cria::serve
