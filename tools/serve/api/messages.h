// The messages of a conversation, as OpenAI's clients write them.
#pragma once

#include <vector>

#include "engine/session.h"
#include "tools/options/fields.h"

namespace cria::serve {

using tools::Fields;
using tools::RequestError;
using tools::RequestJson;

/// From the field "messages". A developer is the system; parts of text are joined; what else a
/// message says is kept for the template. Throws RequestError with the path of what is wrong.
std::vector<ChatMessage> read_messages(const Fields& body);

}  // namespace cria::serve
