// `cria tokenize`: text to token ids and back, as it comes.
#include <nlohmann/json.hpp>

#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/find_model.h"
#include "tools/options/input.h"
#include "tools/options/model.h"
#include "tools/report/json.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct TokenizeOptions {
  std::string model, pre;
  TextInput input;
  bool decode = false, ids = false, no_bos = false, special = false, json = false;
};

/// An element of an array as json_text() would print the array.
std::string element_text(const nlohmann::ordered_json& json) {
  std::string out = "\n " + json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = 1; (at = out.find('\n', at)) != std::string::npos; at += 2)
    out.insert(at + 1, " ");
  return out;
}

/// A token's bytes on one line: quotes, backslashes, control characters and bytes that are no UTF-8
/// by themselves escaped.
std::string quoted(const std::string& bytes) {
  std::string utf8 = json_line(bytes);
  utf8.pop_back();
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

std::string right_aligned(std::size_t width, std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < width ? width - digits.size() : 0, ' ') + digits;
}

/// Writes tokens in the form that was asked for.
class TokenWriter {
 public:
  TokenWriter(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options) {
    if (options.json) out_ = "[";
  }

  /// Where each token's bytes end in the text; unused with --ids.
  void write(const std::vector<TokenId>& ids, const std::vector<std::size_t>& ends) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (options_.json)
        json(ids[i], ends[i]);
      else if (options_.ids)
        out_.append(first_ ? "" : " ").append(std::to_string(ids[i]));
      else
        row(ids[i], ends[i]);
      first_ = false;
    }
    write_stdout(out_);
    out_.clear();
  }
  void finish() {
    if (options_.json) write_stdout(first_ ? "]\n" : "\n]\n");
    if (options_.ids && !options_.json) write_stdout("\n");
  }

 private:
  void json(TokenId id, std::size_t end) {
    out_ += first_ ? "" : ",";
    out_ += element_text(
        {{"id", id}, {"piece", tokenizer_.piece(id, true)}, {"begin", begin_}, {"end", end}});
    begin_ = end;
  }
  void row(TokenId id, std::size_t end) {
    out_ += right_aligned(7, static_cast<std::size_t>(id)) + "  " + right_aligned(8, begin_) +
            "  " + quoted(tokenizer_.piece(id, true)) + "\n";
    begin_ = end;
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  std::string out_;
  std::size_t begin_ = 0;
  bool first_ = true;
};

void encode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  StreamEncoder stream(tokenizer, !options.no_bos, options.special);
  TokenWriter writer(tokenizer, options);
  std::vector<std::size_t> ends;
  std::vector<std::size_t>* const wanted = options.ids && !options.json ? nullptr : &ends;
  options.input.read_pieces([&](std::string_view text) {
    writer.write(stream.push(text, wanted), ends);
    flush_stdout();
  });
  writer.write(stream.finish(wanted), ends);
  writer.finish();
}

/// Numbers that end in the text so far; the rest stays.
std::string take_whole_numbers(std::string& text) {
  const std::size_t end = text.find_last_of(", \t\r\n") + 1;  // 0 if there is none
  std::string whole = text.substr(0, end);
  text.erase(0, end);
  return whole;
}

void decode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::size_t n_vocab = tokenizer.vocabulary().tokens.size();
  StreamDecoder stream(tokenizer, false, options.special);
  std::string numbers, text;
  const auto add = [&](const std::string& whole) {
    for (const TokenId id : parse_ids(whole, n_vocab)) text += stream.push(id);
    if (options.json) return;
    write_stdout(for_stream(stdout, text));
    text.clear();
  };
  options.input.read_pieces([&](std::string_view more) {
    numbers += more;
    add(take_whole_numbers(numbers));
    flush_stdout();
  });
  add(numbers);
  text += stream.finish();
  write_stdout(options.json ? json_text({{"text", text}}) : for_stream(stdout, text));
}

int run(const TokenizeOptions& options) {
  const std::string path = find_model(options.model);
  const GgufFile file = GgufFile::open(path, {.metadata_only = true});
  Vocabulary vocabulary = Vocabulary::from_gguf(file);
  if (!options.pre.empty()) vocabulary.pre = options.pre;
  warn_of_missing_pre(vocabulary);
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = Tokenizer::create(vocabulary);
  } catch (const Error& error) {
    throw Error(path, error.what());
  }
  if (options.decode)
    decode(*tokenizer, options);
  else
    encode(*tokenizer, options);
  flush_stdout();
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Turn text into token ids and back, byte for byte");
  auto options = std::make_shared<TokenizeOptions>();
  add_model_option(*command, options->model);
  options->input.add_to(*command, "the text (with --decode: token ids)");
  command->add_flag("--ids", options->ids, "print only the ids, on one line, separated by spaces");
  command->add_flag("--decode", options->decode,
                    "turn token ids (separated by spaces or commas) into text");
  command->add_flag("--no-bos", options->no_bos, "do not add BOS or EOS");
  command->add_flag(
      "--special", options->special,
      "treat names of control tokens in the text as control tokens; with --decode: show them");
  add_pre_option(*command, options->pre);
  command->add_flag("--json", options->json,
                    "a JSON array of {\"id\", \"piece\", \"begin\", \"end\"} (offsets in the "
                    "text's bytes); with --decode "
                    "{\"text\"}");
  command->get_option("--ids")->excludes("--json")->excludes("--decode");
  command->get_option("--no-bos")->excludes("--decode");
  command->footer(
      "Without --ids or --json, prints a line per token: its id, the offset of its bytes in the "
      "text, and "
      "the bytes. Input from a pipe is tokenized as it arrives.\n\n"
      "Examples:\n"
      "  cria tokenize -p \"Hello world\"\n"
      "  cria tokenize --ids -f text.txt | cria tokenize --decode\n"
      "  cria tokenize -m model.gguf --special -p \"<|im_start|>user\"");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
