#include "tools/terminal/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/error.h"
#include "tools/terminal/standard_output.h"

namespace cria::tools {
namespace {

bool is_written_directly(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error) &&
         !fs::is_directory(path, error);
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  if (path == "-") return;
  if (is_written_directly(path)) {
    stream_.reset(std::fopen(path.c_str(), "wb"));
    if (stream_ == nullptr) fail();
  } else {
    file_.emplace(path);
  }
}

void OutputFile::fail() const {
  if (errno == EPIPE) throw OutputClosed();
  throw Error(path_, std::string("cannot write: ") + std::strerror(errno));
}

void OutputFile::write(std::string_view bytes) {
  if (file_) return file_->write(bytes);
  if (stream_ == nullptr) return write_stdout(bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) != bytes.size()) fail();
}

void OutputFile::finish() {
  if (file_) return file_->finish();
  if (stream_ == nullptr) return flush_stdout();
  if (std::fflush(stream_.get()) != 0) fail();
}

}  // namespace cria::tools
