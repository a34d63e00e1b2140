// The messages typed in chats, also in earlier ones: what the up arrow shows.
#pragma once

#include <histedit.h>

#include <string>

namespace cria::tools {

/// Kept in $XDG_STATE_HOME/cria/history (or ~/.local/state/cria/history). Several chats at once add
/// to one file; each sees what was there when it began, and its own.
class MessageHistory {
 public:
  MessageHistory();
  ~MessageHistory();
  MessageHistory(const MessageHistory&) = delete;
  MessageHistory& operator=(const MessageHistory&) = delete;

  void add(const std::string& message);
  [[nodiscard]] ::History* handle() const { return history_; }  ///< for libedit

 private:
  std::string file_;  // "": no place for one
  ::History* history_;
};

}  // namespace cria::tools
