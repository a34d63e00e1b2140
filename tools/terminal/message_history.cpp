#include "tools/terminal/message_history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

/// "" where there is no home.
std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path directory;
  if (state != nullptr && *state == '/')
    directory = state;
  else if (home != nullptr && *home != '\0')
    directory = fs::path(home) / ".local/state";
  else
    return "";
  directory /= "cria";
  std::error_code error;
  fs::create_directories(directory, error);
  return error ? "" : (directory / "history").string();
}

::History* empty_history() {
  ::History* history = history_init();
  HistEvent event;
  ::history(history, &event, H_SETSIZE, 1000);
  ::history(history, &event, H_SETUNIQUE, 1);
  return history;
}

}  // namespace

MessageHistory::MessageHistory() : file_(history_path()), history_(empty_history()) {
  HistEvent event;
  if (!file_.empty()) ::history(history_, &event, H_LOAD, file_.c_str());
}

MessageHistory::~MessageHistory() { history_end(history_); }

void MessageHistory::add(const std::string& message) {
  HistEvent event;
  ::history(history_, &event, H_ENTER, message.c_str());
  if (file_.empty()) return;
  // What was said is the user's own business: nobody else reads the file.
  const int lock = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return;
  flock(lock, LOCK_EX);
  ::History* const all = empty_history();  // what another chat has added since is in the file only
  ::history(all, &event, H_LOAD, file_.c_str());
  ::history(all, &event, H_ENTER, message.c_str());
  ::history(all, &event, H_SAVE, file_.c_str());
  history_end(all);
  close(lock);
}

}  // namespace cria::tools
