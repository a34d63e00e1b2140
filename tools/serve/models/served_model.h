// A served model: the facts of its file that clients see, and what requests need.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tools/requests/fields.h"
#include "tools/serve/service/service.h"

namespace cria::serve {

/// Returns the name of a file, without ".gguf": the default name of its model.
std::string file_name(const std::string& path);

/// Facts of a model that need no service.
struct ModelCard {
  std::string architecture;        ///< general.architecture
  std::string main_type;           ///< type of most values: "Q8_0"
  std::string output;              ///< its answers: "text", "embeddings" or "rerank"
  std::string digest;              ///< 64 hexadecimal digits that depend on the tensors only
  std::uint32_t n_ctx_train = 0;   ///< training context, in tokens
  std::uint32_t n_vocab = 0;       ///< logits per position
  std::uint32_t n_embd = 0;        ///< values per position
  std::uint64_t n_params = 0;      ///< values of all tensors
  std::uint64_t tensor_bytes = 0;  ///< bytes of all tensors
  std::uint64_t file_bytes = 0;    ///< bytes of all files
  std::int64_t modified = 0;       ///< last change of the file, seconds since 1970
  std::size_t n_ctx = 0;           ///< max tokens of a prompt and its answer
  std::size_t slots = 0;           ///< answers at once
  std::uint64_t memory = 0;        ///< bytes for weights, work, keys and values; 0: unknown
};

/// A loaded model.
struct ServedModel {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const ChatTemplate> chat_template;
  std::optional<CallForm> calls;  ///< tool-call format; nullopt: from the template
  std::string id;                 ///< name
  std::string fingerprint;        ///< fingerprint of program and model
  ModelCard card;
  GenerateOptions defaults;          ///< for absent fields; no seed: a random one per request
  Pooling pooling = Pooling::Mean;   ///< for embeddings
  std::unique_ptr<Service> service;  ///< computes; null: the model was opened only to look at it

  [[nodiscard]] std::size_t n_ctx() const { return service->n_ctx(); }

  /// Returns a model without a service, context, slots and memory. alias: the name; "": the name of
  /// the file.
  static ServedModel of(std::shared_ptr<const Model> model,
                        std::shared_ptr<const ChatTemplate> chat_template,
                        std::optional<CallForm> calls, const std::string& alias);
};

}  // namespace cria::serve
