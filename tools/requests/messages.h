// The messages and tools of a conversation, in the form of OpenAI's requests, and changes to one
// that a template refuses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "model/file/json.h"
#include "tools/requests/fields.h"

namespace cria::tools {

/// True for the members of messages and of their parts that change no answer, such as "id".
bool changes_nothing(std::string_view name);
/// True for the members of a message that cria reads, whatever its template shows, and for those
/// that change nothing.
bool is_known_member(std::string_view name);
/// True for the names under which clients send back what the model thought.
bool is_thinking_member(std::string_view name);
/// Throws RequestError for members of a message that no template shows, such as "images".
void reject_lost_members(const Fields& message);

/// Reads "messages". The role developer becomes system, text parts are joined. Throws RequestError
/// with the path at fault.
std::vector<ChatMessage> read_messages(const Fields& body);

/// The tools that a request offers, and if the model must call one.
struct ToolFields {
  enum class Choice : std::uint8_t { None, Auto, Required, Named };
  Json tools;  ///< the array as it was sent, or null
  Choice choice = Choice::Auto;
  std::string name;                  ///< name of the tool, if the choice is Named
  std::vector<std::string> allowed;  ///< tools that may be called; empty: all
  bool parallel = true;              ///< false: at most one call per answer

  /// True if the template shows them to the model.
  [[nodiscard]] bool offered() const { return !tools.is_null() && choice != Choice::None; }
  /// True if the model must call a tool.
  [[nodiscard]] bool demanded() const {
    return choice == Choice::Required || choice == Choice::Named;
  }
};

/// Reads "tools", "tool_choice" and "parallel_tool_calls". Throws RequestError with the path at
/// fault.
ToolFields read_tool_fields(const Fields& body);

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
