// What each form of tool calls looks like.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "tokenizer/chat/tool_call.h"

namespace cria {

struct CallFormFacts {
  CallForm form;
  std::string_view name;         ///< on the command line
  std::string_view open, close;  ///< around a call or a list of them; close may be "" if is_json
  std::array<std::string_view, 2> signs;           ///< what a template of this form names, or ""
  std::string_view all_open = "", all_close = "";  ///< around all calls; they say nothing more
  bool is_json = false;  ///< between the markers is one JSON value; if not, close begins with <
  std::string_view argument_open = "",
                   argument_close = "";  ///< between them close is text; they begin with <
};

/// The more special forms first: the first whose signs a template has is its own.
std::span<const CallFormFacts> call_forms();
/// Of a form other than None and Channels.
const CallFormFacts& call_form_facts(CallForm form);

}  // namespace cria
