// A line of a file of requests: OpenAI's batch form, or a short one.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": […],
//   "max_tokens": 50}}
//   {"custom_id": "b", "url": "/v1/completions", "body": {"prompt": "The river"}}       a text that
//   goes on
//   {"prompt": "What is …?", "temperature": 0}                                          as `cria
//   run` takes it
//   {"messages": […], "tools": […]}                                                     likewise
#pragma once

#include <optional>
#include <string>

#include "engine/session.h"
#include "tools/options/conversation.h"

namespace cria::tools {

struct BatchRequest {
  std::string custom_id;      ///< "" if it has none
  bool openai = false;        ///< has a body: its answer takes OpenAI's form
  std::optional<bool> raw;    ///< a text that goes on; absent: as the model has a template or not
  std::string prompt;         ///< where there is no conversation
  Conversation conversation;  ///< empty: there is a prompt
  GenerateOptions generate;
};

/// defaults: what the line does not say. Throws Error that says what is wrong with it.
BatchRequest parse_batch_request(const std::string& line, const GenerateOptions& defaults);

/// The custom_id of a line, as far as it can be read, for an error's answer; and whether it has a
/// body.
BatchRequest identify_batch_request(const std::string& line);

}  // namespace cria::tools
