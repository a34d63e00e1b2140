// What a subcommand reads: whole files, stdin as it comes, token ids.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace cria::tools {

std::string read_file(const std::string& path);   ///< "-": stdin. Throws Error.
std::string input_name(const std::string& path);  ///< as errors have it: "-" is "stdin"
/// A file (or stdin) as it comes, in pieces of at most 1 MiB. Throws Error.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& sink);
/// The input of a subcommand that takes -p TEXT, -f FILE or stdin.
struct TextInput {
  std::optional<std::string> text;
  std::string file;
  void add_to(CLI::App& command, const std::string& what);
  [[nodiscard]] std::string read() const;
  /// In pieces, as it comes.
  void read_pieces(const std::function<void(std::string_view)>& sink) const;
};

/// Token ids separated by commas or white space. Throws Error if one is not in the vocabulary.
std::vector<TokenId> parse_ids(std::string_view text, std::size_t n_vocab);

}  // namespace cria::tools
