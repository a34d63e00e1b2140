// The formats in which models write tool calls: one row of a table each. Reading, streaming,
// constraining and the choice by the template all follow from the row.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tokenizer/chat/tool_call.h"

namespace cria {

struct Vocabulary;

/// The notation between the markers of a call.
enum class CallBody : std::uint8_t {
  JsonObject,  ///< {"name": …, "arguments": {…}}, or an array of calls
  KeyedJson,   ///< {NAME: {…}}, or an array of calls
  Named,       ///< NAME, name_close, {…}
  Tagged,      ///< NAME, then a key and a value between tags for each argument
  Python,      ///< NAME(KEY=VALUE, …), several with commas or line breaks between, perhaps in []
  Gemma,       ///< call:NAME{KEY:VALUE,…}, strings between <|"|>
  Channel,     ///< a message to functions.NAME
};

/// Text around {"name": NAME, ARGUMENTS_KEY: {…}} in constrained answers; without arguments_key,
/// answers are not constrained.
struct CallGrammar {
  std::string_view arguments_key = {};
  std::string_view lead = {}, tail = {};  ///< between the markers and the object
  std::string_view between = {};          ///< between two calls
  std::string_view list_open = {}, list_close = {};
};

struct CallFormat {
  CallForm form = CallForm::None;  ///< None: known by its name only
  std::string_view name;           ///< on the command line
  /// Words that the text of a template of this format contains. They decide only if the template
  /// renders no call that a format can read.
  std::array<std::string_view, 2> signs = {};
  CallBody body = CallBody::JsonObject;
  /// Markers of a call or a list of calls, and other spellings of them. close may be empty if the
  /// end is known without it.
  std::string_view open = {}, other_open = {}, close = {};
  std::string_view section_open = {},
                   section_close = {};                 ///< around all calls, optional in answers
  std::string_view name_prefix = {}, name_close = {};  ///< Named, Tagged
  /// Tagged: key_open KEY key_close … value_open VALUE value_close. "true" before value_open makes
  /// the value a string, "false" makes it JSON; otherwise the tool's schema decides.
  std::string_view key_open = {}, key_close = {}, value_open = {}, value_close = {};
  bool trim_lines = false;  ///< line breaks next to tags are not part of a value
  bool unmarked = false;    ///< the whole answer may be a call of an offered tool, without markers
  std::string_view unmarked_text = {};  ///< Named: the name in front of plain text
  CallGrammar grammar = {};
};

/// All formats, except None. More specific ones come first.
std::span<const CallFormat> call_formats();
/// Returns null for None.
const CallFormat* call_format(CallForm form);
/// Returns the format in which a template writes calls, by what it renders: the one that reads most
/// of an assistant's message with a call. render gets an id for the call, and returns the message
/// from where it differs from one without a call (nullopt if the template fails). Returns None if
/// no format reads the call.
CallForm call_form_by_rendering(
    const std::function<std::optional<std::string>(std::string_view id)>& render);
/// Returns the format whose opening marker is a control token or user-defined token; None without.
CallForm call_form_of_vocabulary(const Vocabulary& vocabulary);
/// The tool, argument and value of the call that `render` must write.
inline constexpr std::string_view kProbeTool = "probe_tool", kProbeKey = "probe_key",
                                  kProbeValue = "probe value";

}  // namespace cria
