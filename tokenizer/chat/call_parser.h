// Tool calls that have been written to their end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/call_format.h"
#include "tokenizer/chat/call_values.h"

namespace cria {

/// Returns the calls (without ids) in the text between two markers; empty if it does not follow the
/// format. tools: those that the model was offered.
std::vector<ToolCall> parse_calls(const CallFormat& format, std::string_view text,
                                  OfferedTools& tools);

/// Returns a tool's name without "functions." in front, and without the number of the call (":0")
/// or its id ("[CALL_ID]…") behind.
std::string_view bare_tool_name(const CallFormat& format, std::string_view name);

/// Returns the next argument as "KEY": VALUE and removes it from the text; nullopt if there is none
/// that follows the format.
std::optional<std::string> take_tagged_argument(const CallFormat& format, std::string_view tool,
                                                std::string_view& text, OfferedTools& tools);

/// Returns the value of a tagged argument and removes it from the text, with the tag that closes
/// it. A forgotten tag ends where the next argument of the tool begins on a line of its own, or
/// with the text.
std::string_view take_tagged_value(const CallFormat& format, std::string_view tool,
                                   std::string_view& text, OfferedTools& tools);

}  // namespace cria
