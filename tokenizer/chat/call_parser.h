// What stands between the markers of a call, understood.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/chat/offered_tools.h"
#include "tokenizer/chat/tool_call.h"

namespace cria {

/// The calls (without ids) that the text between two markers holds; none where it does not keep to
/// the form. tools: those that the model was offered.
std::vector<ToolCall> parse_calls(CallForm form, std::string_view text, OfferedTools& tools);

}  // namespace cria
