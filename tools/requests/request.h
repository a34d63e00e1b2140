// Requests for answers, of /v1/chat/completions and /v1/completions.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/file/json.h"
#include "tokenizer/fill_middle.h"
#include "tools/requests/answer_fields.h"
#include "tools/requests/messages.h"

namespace cria::tools {

/// A text, or the ids of its tokens.
using PromptText = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  bool chat = true;
  std::string model;                  ///< the name that it asks for, or ""
  std::vector<ChatMessage> messages;  ///< messages of a chat
  std::string variables;              ///< for the template, with the tools: a JSON object, or ""
  std::vector<PromptText> prompts;    ///< prompts of a completion
  bool one_prompt = true;             ///< the prompt is not a list
  std::optional<FillText> fill;       ///< the gap to fill, in place of prompts
  bool cut_prompt = false;            ///< cut the texts around the gap if they exceed the context
  GenerateOptions generate;           ///< with the seed of the first choice
  std::size_t choices = 1;            ///< for each prompt
  bool stream = false, include_usage = false;
  bool echo = false;
  bool reuse = true;                 ///< use the prefix cache
  bool continue_last = false;        ///< the answer continues the last message
  bool progress = false;             ///< the stream reports how far the prompt is read
  bool timings_per_token = false;    ///< each chunk has timings
  std::optional<bool> think;         ///< the template's switch for thinking
  std::string think_path;            ///< of the field that sets it
  std::vector<std::string> ignored;  ///< names of unknown fields
  std::vector<float> adapters;       ///< scales of adapters, by id; empty: the model's
  ConstraintFields constraint;
  ToolFields tools;

  [[nodiscard]] std::uint64_t seed() const { return *generate.sampler.seed; }
};

/// Read a request of `cria serve`, which ignores unknown fields. defaults: options that the request
/// leaves out. n_adapters: adapters of the model. Throw RequestError with the path at fault.
CompletionRequest read_chat_request(const Json& body, const GenerateOptions& defaults,
                                    std::size_t n_vocab, std::size_t n_adapters = 0);
CompletionRequest read_completion_request(const Json& body, const GenerateOptions& defaults,
                                          std::size_t n_vocab, std::size_t n_adapters = 0);

/// Reads the fields that all requests for an answer have. Throws RequestError.
CompletionRequest read_common(const Fields& body, const GenerateOptions& defaults,
                              const AnswerFieldsForm& form);
/// Returns "chat_template_kwargs", which may not replace messages and tools.
Json template_arguments(const Fields& body);

/// Adds names to a list "a,b" of at most 8: those that are 1 to 40 of [A-Za-z0-9_.-], each once and
/// after the prefix.
void add_ignored(std::string& list, const std::vector<std::string>& names,
                 const std::string& prefix = "");
/// Returns the names of unread fields as such a list, without those that every request may have.
std::string ignored_fields(const Fields& fields);

/// Reads "keep_alive": seconds, or a duration such as "5m". Returns seconds, negative: for ever;
/// nullopt: absent.
std::optional<double> read_keep_alive(const Fields& fields);

/// Reads a string, an array of strings, an array of ids, or an array of such arrays. Sets `several`
/// to true for a list of prompts.
std::vector<PromptText> read_prompts(const Fields& body, const std::string& name,
                                     std::size_t n_vocab, bool& several);
/// Reads ids below n_vocab.
std::vector<TokenId> read_ids(const Json& list, const std::string& path, std::size_t n_vocab);

}  // namespace cria::tools
