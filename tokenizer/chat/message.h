// A conversation as it is given to a chat template.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace cria {

/// One message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant", …
  std::string content;  ///< its text
  /// A message that says more (tool calls, a content of several parts, "reasoning_content"): all of
  /// it as a JSON object, which the template sees instead of the content above. "" otherwise.
  std::string json = {};
};

/// The input of a template in addition to the messages.
struct RenderOptions {
  bool add_generation_prompt = true;  ///< end with the opening of the assistant's answer
  /// End with the content of the last message, the assistant's, which the answer continues. Throws
  /// Error if the template does not show it.
  bool continue_last = false;
  /// Further variables of the template (tools, documents, enable_thinking …) as a JSON object, or
  /// "". A template without tool support gets the tools in Hermes form, in the system message or,
  /// if it refuses one, in the first user message.
  std::string variables = {};
  std::optional<std::tm> now = {};  ///< for templates that tell the date; default: the clock
  /// Set to what the template omits, "the system message" or the last question; null: that is an
  /// error.
  std::string* omitted = nullptr;
};

}  // namespace cria
