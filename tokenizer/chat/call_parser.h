// Parses the text between the markers of a call.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/chat/call_format.h"
#include "tokenizer/chat/offered_tools.h"

namespace cria {

/// Returns the calls (without ids) in the text between two markers; empty if it does not follow the
/// format. tools: those that the model was offered.
std::vector<ToolCall> parse_calls(const CallFormat& format, std::string_view text,
                                  OfferedTools& tools);

/// Returns the value of a tagged argument and removes it from the text, with the tag that closes
/// it. A forgotten tag ends where the next argument of the tool begins on a line of its own, or
/// with the text.
std::string_view take_tagged_value(const CallFormat& format, std::string_view tool,
                                   std::string_view& text, OfferedTools& tools);

}  // namespace cria
