// What clients ask of /v1/chat/completions and /v1/completions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tools/options/constraint_fields.h"
#include "tools/serve/api/tool_fields.h"

namespace cria::serve {

using tools::ConstraintFields;

/// A text, or the ids of its tokens.
using PromptText = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  bool chat = true;
  std::string model;  ///< the name that it asks for, or ""
  std::vector<ChatMessage> messages;
  std::string variables;            ///< for the template, tools among them: a JSON object, or ""
  std::vector<PromptText> prompts;  ///< where it is no chat
  bool one_prompt = true;           ///< that is no list of them
  GenerateOptions generate;         ///< its seed is that of the first choice
  std::size_t choices = 1;          ///< for each prompt
  bool stream = false, include_usage = false;
  bool echo = false;
  bool reuse = true;  ///< what was read before
  ConstraintFields constraint;
  ToolFields tools;

  [[nodiscard]] std::uint64_t seed() const { return *generate.sampler.seed; }
};

/// defaults: what the request does not say. Throw RequestError with the path of what is wrong.
CompletionRequest read_chat_request(const RequestJson& body, const GenerateOptions& defaults,
                                    std::size_t n_vocab);
CompletionRequest read_completion_request(const RequestJson& body, const GenerateOptions& defaults,
                                          std::size_t n_vocab);

/// A field that is a text, an array of texts, an array of ids, or an array of such arrays; several:
/// whether it is a list of prompts.
std::vector<PromptText> read_prompts(const Fields& body, const std::string& name,
                                     std::size_t n_vocab, bool& several);
/// Ids below n_vocab.
std::vector<TokenId> read_ids(const RequestJson& list, const std::string& path,
                              std::size_t n_vocab);

}  // namespace cria::serve
