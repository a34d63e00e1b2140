// `cria tokenize` and `cria template`: text to token ids and back; a conversation as text.
#include <ctime>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "tokenizer/jinja/values/text.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

struct TokenizeOptions {
  std::string model, pre;
  TextInput input;
  bool decode = false, ids = false, no_bos = false, special = false, json = false;
};

/// An element of an array as json_text() would print the array.
std::string element_text(const Json& json) {
  std::string out = "\n " + json.dump(1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 1; (at = out.find('\n', at)) != std::string::npos; at += 2)
    out.insert(at + 1, " ");
  return out;
}

/// A token's bytes on one line: quotes, backslashes, control characters and invalid UTF-8 are
/// escaped.
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

  /// ends: the end of each token's bytes in the text; unused with --ids.
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
  const std::size_t end = text.find_last_of("[, \t\r\n]") + 1;  // 0 without a separator
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

int run(TokenizeOptions options) {
  if (options.input.text) options.input.text = after_piped_stdin(*options.input.text);
  note_unread_stdin("--file", options.input.files);
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
  return 0;
}

}  // namespace

void add_tokenize(Program& program) {
  Command& command = program.add("tokenize", "Turn text into token ids and back, byte for byte");
  auto options = std::make_shared<TokenizeOptions>();
  command.add({model_flag(options->model)});
  command.add(options->input.flags("the text (with --decode: token ids)"));
  command.add({
      {"--ids",
       "",
       "print only the ids, on one line, separated by spaces",
       into::flag(options->ids),
       {.excludes = "--json,--decode"}},
      {"--decode", "", "turn token ids (separated by spaces or commas) into text",
       into::flag(options->decode)},
      {"--no-bos",
       "",
       "do not add BOS or EOS",
       into::flag(options->no_bos),
       {.excludes = "--decode"}},
      {"--special", "",
       "treat names of control tokens in the text as control tokens; with --decode: show them",
       into::flag(options->special)},
  });
  command.add({pre_flag(options->pre)});
  command.add({
      {"--json", "",
       "a JSON array of {\"id\", \"piece\", \"begin\", \"end\"} (offsets in the "
       "text's bytes); with --decode "
       "{\"text\"}",
       into::flag(options->json)},
  });
  command.notes =
      "Without --ids or --json, prints a line per token: its id, the offset of its bytes in the "
      "text, and "
      "the bytes. Input from a pipe is tokenized as it arrives; with -p, it stands before that "
      "text, a blank "
      "line between.\n\n"
      "Examples:\n"
      "  cria tokenize -p \"Hello world\"\n"
      "  cria tokenize --ids -f text.txt | cria tokenize --decode\n"
      "  cria tokenize -m model.gguf --special -p \"<|im_start|>user\"";
  command.run = [options] { return run(*options); };
}

namespace {

struct TemplateOptions {
  std::string model, file, messages, date;
  std::string bos, eos, system;
  std::optional<std::string> prompt;
  TemplateVariables variables;
  bool no_generation_prompt = false;
  const Command* command = nullptr;
};

/// "2026-11-20", at midnight. Throws a usage error.
std::tm parse_date(const std::string& text) {
  std::tm date{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%d", &date);
  if (end == nullptr || *end != '\0')
    throw UsageError("--date", "expected YYYY-MM-DD, got " + text);
  return date;
}

ChatTemplate find_template(const TemplateOptions& options) {
  if (options.file.empty()) {
    const GgufFile file = GgufFile::open(find_model(options.model));
    Vocabulary vocabulary = Vocabulary::from_gguf(file);
    ChatTemplate its_own = choose_template("", vocabulary);
    if (!options.bos.empty() || !options.eos.empty()) {
      TemplateTokens tokens = TemplateTokens::of(vocabulary);
      if (!options.bos.empty()) tokens.bos = options.bos;
      if (!options.eos.empty()) tokens.eos = options.eos;
      its_own.set_tokens(std::move(tokens));
    }
    return its_own;
  }
  return named_template(options.file, {options.bos, options.eos});
}

int run(const TemplateOptions& options) {
  RenderOptions render;
  if (!options.date.empty()) render.now = parse_date(options.date);
  render.add_generation_prompt = !options.no_generation_prompt;
  const ChatTemplate chat_template = find_template(options);
  if (!options.prompt && options.messages.empty())
    throw UsageError("--messages is missing (-p TEXT is a message of the user)");
  Conversation conversation;
  if (options.prompt)
    conversation.messages.push_back({"user", after_piped_stdin(*options.prompt)});
  else
    conversation = read_conversation(options.messages);
  if (!options.prompt) note_unread_stdin("--messages", {options.messages});
  set_system_option(conversation.messages, options.system, *options.command);
  render.variables = options.variables.over(conversation.variables);
  std::string omitted;
  render.omitted = &omitted;
  const std::string text = chat_template.render(conversation.messages, render).bytes();
  if (!omitted.empty())
    print_warning("the chat template leaves out " + omitted + "; other commands refuse it");
  for (std::string note : {chat_template.note(), options.variables.note(chat_template)})
    print_and_clear(note);
  write_stdout(for_stream(stdout, text));
  return 0;
}

}  // namespace

void add_template(Program& program) {
  Command& command = program.add("template", "Print a conversation as the model reads it");
  auto options = std::make_shared<TemplateOptions>();
  options->command = &command;
  command.add({model_flag(options->model)});
  command.add({
      {"--template",
       "FILE|TEXT",
       "Jinja2 template, its file, or the name of a built-in template, instead of a model's: " +
           ChatTemplate::builtin_names(),
       into::text(options->file),
       {.excludes = "--model"}},
      {"--messages",
       "FILE",
       "the conversation: a JSON array of {\"role\", \"content\"}, or an object with "
       "\"messages\" and further variables for the template, such as \"tools\" (-: stdin)",
       into::once(into::text(options->messages)),
       {.excludes = "--prompt"}},
      {"-p,--prompt", "TEXT", "a message of the user, in place of --messages",
       into::once(into::text(options->prompt))},
      {"-s,--system", "TEXT", "system message, instead of the one in --messages",
       into::text(options->system)},
      {"--no-generation-prompt", "", "end after the last message, without the opening of an answer",
       into::flag(options->no_generation_prompt)},
  });
  command.add(options->variables.flags());
  command.add({options->variables.tools_flag()});
  command.add({
      {"--bos-token", "TEXT", "value of the template's bos_token (default: the model's)",
       into::text(options->bos)},
      {"--eos-token", "TEXT", "value of the template's eos_token (default: the model's)",
       into::text(options->eos)},
      {"--date", "DATE", "YYYY-MM-DD, for templates that contain the date (default: today)",
       into::text(options->date)},
  });
  command.notes =
      "The text is printed exactly: no newline is added at its end.\n\n"
      "Examples:\n"
      "  cria template -m model.gguf --messages chat.json\n"
      "  cria template --template my.jinja --messages chat.json --bos-token \"<s>\"";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
