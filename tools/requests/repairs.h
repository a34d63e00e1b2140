// Changes to a conversation that a template refuses, until it takes it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/session.h"

namespace cria::tools {

/// What a template renders.
struct TemplateInput {
  std::vector<ChatMessage> messages;
  std::string variables;  ///< a JSON object with the tools, or ""
};

/// Changes the input until `renders` takes it. Returns the names of the repairs: "fill" (tools get
/// an empty description and parameters), "join" (neighbouring messages of the system or the user
/// become one), "move" (later system messages go into the first), "fold" (the system's text goes
/// into the user's), "split" (each tool call gets a message of its own, with its result behind it).
/// As few as possible, the first of those; empty if nothing helps, and then the input is unchanged.
std::vector<std::string> repair(TemplateInput& input,
                                const std::function<bool(const TemplateInput&)>& renders);

}  // namespace cria::tools
