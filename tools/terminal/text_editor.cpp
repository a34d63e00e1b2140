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
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "vi";
}

/// A file with a text that nobody else reads; gone with this object.
class TemporaryText {
 public:
  explicit TemporaryText(const std::string& text)
      : path_((fs::temp_directory_path() / "cria-message-XXXXXX").string()) {
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) return;
    close(descriptor);
    std::ofstream(path_, std::ios::binary) << text << (text.empty() ? "" : "\n");
  }
  ~TemporaryText() {
    std::error_code gone;
    fs::remove(path_, gone);
  }
  TemporaryText(const TemporaryText&) = delete;
  TemporaryText& operator=(const TemporaryText&) = delete;

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
