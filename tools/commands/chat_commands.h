// What begins with a slash in a chat.
#pragma once

#include <string>
#include <vector>

#include "tools/commands/chat_session.h"
#include "tools/terminal/line_reader.h"

namespace cria::tools {

/// Lines of the program's own, on stderr, wrapped to the terminal. indent: of what goes on in a new
/// line.
void say(const std::string& text, std::size_t indent = 0);

/// What the commands of a chat work on.
struct ChatState {
  ChatSession& chat;
  LineReader& reader;
  bool interactive;
  SamplingOptions sampling;  ///< as it is now
  TextSink sink;             ///< for answers
  bool ended = false;        ///< by /exit
  bool answered = false;     ///< by /retry: `answer` is one that is not told yet
  GenerateResult answer = {};
};

/// Whether it is a command and no message: a slash and a word of letters, or a word that ends a
/// chat.
bool is_command(const TypedText& typed);
/// Throws Error for what is no command, and what commands throw.
void run_command(ChatState& state, const std::string& line);
/// For LineReader: commands, and what they are about.
std::vector<std::string> complete_command(const std::string& line);

}  // namespace cria::tools
