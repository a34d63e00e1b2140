// The commands of a chat, which begin with a slash.
#pragma once

#include <string>
#include <vector>

#include "tools/commands/chat_session.h"
#include "tools/terminal/line_reader.h"

namespace cria::tools {

/// Prints the program's own lines on stderr, wrapped to the terminal. indent: of continued lines.
void say(const std::string& text, std::size_t indent = 0);

/// The state that chat commands change.
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

/// True for a command: a slash and a word of letters, or a word that ends a chat.
bool is_command(const TypedText& typed);
/// Throws Error for an unknown command, and what commands throw.
void run_command(ChatState& state, const std::string& line);
/// For LineReader: commands, and what they are about.
std::vector<std::string> complete_command(const std::string& line);

}  // namespace cria::tools
