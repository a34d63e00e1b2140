#include "tools/options/input.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "model/error.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLongestPrompt = 64 << 20;  // bytes: more than any context holds

void require_prompt_size(std::uint64_t bytes, const std::string& name) {
  if (bytes > kLongestPrompt)
    throw Error(name, "larger than a prompt may be: expected at most " +
                          std::to_string(kLongestPrompt) + " bytes, got " + std::to_string(bytes));
}

void read_stream(std::FILE* stream, const std::string& name,
                 const std::function<void(std::string_view)>& sink) {
  constexpr std::size_t kPiece = 1 << 20;
  std::string buffer(kPiece, '\0');
  for (;;) {
    if (!wait_readable(fileno(stream))) throw Interrupted();
    const ssize_t n =
        ::read(fileno(stream), buffer.data(), buffer.size());  // what there is, no more
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) throw Error(name, std::string("cannot be read: ") + std::strerror(errno));
    if (n == 0) return;
    sink(std::string_view(buffer).substr(0, static_cast<std::size_t>(n)));
  }
}

}  // namespace

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& sink) {
  if (path == "-") {
    if (is_terminal(stdin)) print_line("cria: reading the text from the terminal; Ctrl-D ends it");
    return read_stream(stdin, "stdin", sink);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) throw Error(path, std::string("cannot be opened: ") + std::strerror(errno));
  read_stream(file.get(), path, sink);
}

std::string read_file(const std::string& path) {
  std::string bytes;
  read_pieces(path, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

std::string input_name(const std::string& path) { return path == "-" ? "stdin" : path; }

void TextInput::add_to(CLI::App& command, const std::string& what) {
  CLI::Option* literal = command.add_option("-p,--prompt", text, what)->type_name("TEXT");
  command.add_option("-f,--file", file, what + ", from a file (-: stdin, the default)")
      ->type_name("FILE")
      ->excludes(literal);
}

std::string TextInput::read() const {
  const std::string name = file.empty() || file == "-" ? "stdin" : file;
  std::error_code unknown;  // of a pipe, say
  if (const std::uintmax_t size = fs::file_size(name == "stdin" ? "/dev/stdin" : name, unknown);
      !text && !unknown)
    require_prompt_size(size, name);
  std::string bytes;
  read_pieces([&](std::string_view piece) {
    bytes += piece;
    require_prompt_size(bytes.size(), name);
  });
  return bytes;
}

void TextInput::read_pieces(const std::function<void(std::string_view)>& sink) const {
  if (text) return sink(*text);
  tools::read_pieces(file.empty() ? "-" : file, sink);
}

std::vector<TokenId> parse_ids(std::string_view text, std::size_t n_vocab) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  std::vector<TokenId> ids;
  for (std::size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(kSeparators, at) - at);
    TokenId id = -1;
    const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (bad != std::errc() || end != word.data() + word.size() || id < 0 ||
        static_cast<std::size_t>(id) >= n_vocab)
      throw Error("", "not a token id: expected 0 to " + std::to_string(n_vocab - 1) + ", got " +
                          std::string(word.substr(0, 40)));
    ids.push_back(id);
    at = text.find_first_not_of(kSeparators, at + word.size());
  }
  return ids;
}

}  // namespace cria::tools
