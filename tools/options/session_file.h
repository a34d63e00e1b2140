// --session: the file that keeps a conversation, and its fate if two programs use it.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tools/cli/flag.h"

namespace cria::tools {

Flag session_flag(std::string& file, const std::string& help);
/// True if the session file exists. Throws Error if its directory is missing, before anything is
/// computed.
bool has_session_file(const std::string& file);

/// A file of --session, watched from the creation of this on. Two programs may use one.
class SessionFile {
 public:
  /// path: "" for none.
  explicit SessionFile(std::string path);
  /// Calls `write` with where to save: the path or, with a warning, a new name next to it if
  /// another program has written the file in the meantime. Others that save in the directory by
  /// this wait until `write` returns, but at most half a minute.
  void save(const std::function<void(const std::string&)>& write) const;

 private:
  [[nodiscard]] std::string target() const;
  /// Inode, size and time of the last change, which differ if a file is replaced.
  using State = std::array<std::uint64_t, 4>;
  [[nodiscard]] State state() const;

  std::string path_;
  State before_;
};

}  // namespace cria::tools
