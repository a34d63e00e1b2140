#include "tools/terminal/text_editor.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

std::string editor() {
  for (const char* const name : {"VISUAL", "EDITOR"}) {
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0')
      return value;
  }
  return "vi";
}

/// A file with a text that nobody else reads; gone with this object. Not there where it cannot be
/// made.
class TemporaryText {
 public:
  explicit TemporaryText(const std::string& text) {
    std::error_code error;
    const fs::path directory = fs::temp_directory_path(error);
    if (error) return;
    std::string path = (directory / "cria-message-XXXXXX").string();
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) return;
    close(descriptor);
    path_ = std::move(path);
    std::ofstream(path_, std::ios::binary) << text << (text.empty() ? "" : "\n");
  }
  ~TemporaryText() {
    std::error_code gone;
    if (is_there()) fs::remove(path_, gone);
  }
  TemporaryText(const TemporaryText&) = delete;
  TemporaryText& operator=(const TemporaryText&) = delete;

  [[nodiscard]] bool is_there() const { return !path_.empty(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

}  // namespace

std::string edit_text(const std::string& text) {
  const TemporaryText file(text);
  if (!file.is_there()) return text;
  // The name reaches the shell by the environment: nothing in it can be taken for more than a name.
  setenv("CRIA_EDITED_FILE", file.path().c_str(), 1);
  const int status = std::system((editor() + " \"$CRIA_EDITED_FILE\"").c_str());
  unsetenv("CRIA_EDITED_FILE");
  if (status != 0) return text;
  std::string edited = file.read();
  while (edited.ends_with('\n')) edited.pop_back();
  return edited;
}

}  // namespace cria::tools
