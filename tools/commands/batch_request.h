// The requests of `cria batch`.
#pragma once
#include <optional>
#include <string>

#include "engine/session.h"
#include "tools/options/conversation.h"

namespace cria::tools {

/// A line of `cria batch`: OpenAI's batch form, or a short one.
///
///   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": […]}}
///   {"custom_id": "b", "url": "/v1/completions", "body": {"prompt": "The river"}}
///   {"prompt": "What is …?", "temperature": 0}
///   {"messages": […], "tools": […]}
struct BatchRequest {
  std::string custom_id;  ///< "" if it has none
  bool openai = false;    ///< it has a body, so its answer takes OpenAI's form
  std::optional<bool>
      raw;             ///< continue the prompt as text; nullopt: unless the model has a template
  std::string prompt;  ///< empty if there is a conversation
  Conversation conversation;  ///< empty if there is a prompt
  GenerateOptions generate;
};

/// Reads a line. Unknown fields go to the template with messages, as `cria run --messages` passes
/// them, and are refused with a prompt. defaults: options that the line leaves out. Throws Error.
BatchRequest parse_batch_request(const std::string& line, const GenerateOptions& defaults);

/// Returns the custom_id of a line, as far as it can be read, and if it has a body.
BatchRequest identify_batch_request(const std::string& line);

}  // namespace cria::tools
