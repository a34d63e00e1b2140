// `cria tokenize`: text to token ids and back.
#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/common.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

struct TokenizeOptions {
  std::string model;
  TextInput input;
  bool decode = false, ids = false, no_bos = false, special = false, json = false;
};

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

/// A token's bytes on one line: quotes, backslashes, control characters and bytes that are no UTF-8 by
/// themselves escaped.
std::string quoted(const std::string& bytes) {
  std::string utf8 = nlohmann::json(bytes).dump(-1, ' ', false, kReplace);
  if (utf8.find("\xEF\xBF\xBD") == std::string::npos || bytes == "\xEF\xBF\xBD") return utf8;
  std::string out = "\"";
  for (const char c : bytes) {
    constexpr char kHex[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
    out += plain ? std::string(1, c) : std::string{'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out + '"';
}

std::string encode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::vector<TokenId> ids = tokenizer.encode(options.input.read(), !options.no_bos, options.special);
  std::string out;
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const TokenId id : ids) list.push_back({{"id", id}, {"piece", tokenizer.piece(id, true)}});
    return list.dump(-1, ' ', false, kReplace) + "\n";
  }
  for (const TokenId id : ids) {
    if (options.ids) {
      out += (out.empty() ? "" : " ") + std::to_string(id);
    } else {
      const std::string number = std::to_string(id);
      out += std::string(number.size() < 7 ? 7 - number.size() : 0, ' ') + number + "  " +
             quoted(tokenizer.piece(id, true)) + "\n";
    }
  }
  return options.ids ? out + "\n" : out;
}

std::string decode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::vector<TokenId> ids = parse_ids(options.input.read(), tokenizer.vocabulary().tokens.size());
  std::string text = tokenizer.decode(ids, options.special);
  if (!options.json) return text;
  return nlohmann::ordered_json{{"text", text}}.dump(-1, ' ', false, kReplace) + "\n";
}

int run(const TokenizeOptions& options) {
  const GgufFile file = GgufFile::open(find_model(options.model), {.metadata_only = true});
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  const auto tokenizer = Tokenizer::create(vocabulary);
  write_stdout(options.decode ? decode(*tokenizer, options) : encode(*tokenizer, options));
  flush_stdout();
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Text to token ids and back, its bytes taken as they are");
  auto options = std::make_shared<TokenizeOptions>();
  add_model_option(*command, options->model);
  options->input.add_to(*command, "the text (with --decode: token ids)");
  command->add_flag("--ids", options->ids, "the ids alone, separated by spaces, on one line");
  command->add_flag("--decode", options->decode, "token ids (separated by spaces or commas) to text");
  command->add_flag("--no-bos", options->no_bos, "no token for the beginning or the end of a text");
  command->add_flag("--special", options->special,
                    "names of control tokens in the text are these tokens, and are shown by --decode");
  command->add_flag("--json", options->json, "a JSON array of {\"id\", \"piece\"}; with --decode {\"text\"}");
  command->footer(
      "Examples:\n"
      "  cria tokenize -p \"Hello world\"\n"
      "  cria tokenize --ids -f text.txt | cria tokenize --decode");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
