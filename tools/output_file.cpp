#include "tools/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/error.h"
#include "tools/standard_output.h"

namespace cria::tools {
namespace fs = std::filesystem;

OutputFile::OutputFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw Error(path, "cannot be written: it is a directory");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    file_ = std::fopen(path.c_str(), "wb");
  } else {
    if (fs::is_symlink(path, error))
      path_ = fs::canonical(path, error).string();  // replace the file, not the link
    temporary_ = path_ + ".part-" + std::to_string(getpid());
    unlink(temporary_.c_str());  // left by a process that was killed and had our number
    const int descriptor = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) file_ = fdopen(descriptor, "wb");
  }
  if (file_ == nullptr) fail("cannot be written");
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::fail(const char* what) const {
  if (errno == EPIPE) throw OutputClosed();
  throw Error(path_, std::string(what) + ": " + std::strerror(errno));
}

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail("cannot be written");
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail("cannot be written");
  if (!temporary_.empty() && std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  std::fclose(file_);
  file_ = nullptr;
}

}  // namespace cria::tools
