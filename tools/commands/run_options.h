// What `cria run` is asked for.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tools/options/chat_template.h"
#include "tools/options/input.h"
#include "tools/options/model.h"
#include "tools/options/sampling.h"

namespace cria::tools {

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  TextInput prompt;
  TemplateVariables variables;
  std::string messages, system, chat_template, session_file;
  std::size_t logprobs = 0,
              choices = 0;  ///< choices: answers to the prompt; 0: one, as it is written
  bool chat = false, raw = false, escapes = false, with_logprobs = false, json = false,
       stream_json = false;
  bool show_thinking = false;
};

/// What is answered: a conversation by a template, or without one the tokens of a text that goes
/// on.
struct RunPrompt {
  std::vector<ChatMessage> messages;
  ChatOptions how;
  std::vector<TokenId> tokens;
  std::vector<std::string> notes;  ///< of the template
};

}  // namespace cria::tools
