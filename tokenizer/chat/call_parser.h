// What stands between the markers of a call, understood.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/tool_call.h"

namespace cria {

/// The calls (without ids) that the text between two markers holds; none where it does not keep to the form.
/// tools: the JSON array that the model was offered, or "": it tells texts from numbers where the form does
/// not.
std::vector<ToolCall> parse_calls(CallForm form, std::string_view text, const std::string& tools);

}  // namespace cria
