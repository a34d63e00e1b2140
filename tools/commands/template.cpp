// `cria template`: a conversation as the model would read it.
#include <ctime>

#include "tokenizer/jinja/values/text.h"
#include "tools/commands/commands.h"
#include "tools/options/chat_template.h"
#include "tools/options/command.h"
#include "tools/options/conversation.h"
#include "tools/options/find_model.h"
#include "tools/options/model.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct TemplateOptions {
  std::string model, file, messages, date;
  std::string bos, eos;
  TemplateVariables variables;
  bool no_generation_prompt = false;
};

/// "2026-11-20", at midnight. Throws a usage error.
std::tm parse_date(const std::string& text) {
  std::tm date{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%d", &date);
  if (end == nullptr || *end != '\0')
    throw CLI::ValidationError("--date", "expected YYYY-MM-DD, got " + text);
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
  const Conversation conversation = read_conversation(options.messages);
  render.variables = options.variables.over(conversation.variables);
  const std::string text = chat_template.render(conversation.messages, render).bytes();
  for (std::string note : {chat_template.note(), options.variables.note(chat_template)})
    say_note(note);
  write_stdout(for_stream(stdout, text));
  flush_stdout();
  return 0;
}

}  // namespace

void add_template(CLI::App& app) {
  CLI::App* command = app.add_subcommand("template", "Print a conversation as the model reads it");
  auto options = std::make_shared<TemplateOptions>();
  add_model_option(*command, options->model);
  command
      ->add_option(
          "--template", options->file,
          "Jinja2 file, or the name of a built-in template, instead of a model's template: " +
              ChatTemplate::builtin_names())
      ->type_name("FILE")
      ->excludes("--model");
  command
      ->add_option(
          "--messages", options->messages,
          "the conversation: a JSON array of {\"role\", \"content\"}, or an object with "
          "\"messages\" and further variables for the template, such as \"tools\" (-: stdin)")
      ->type_name("FILE")
      ->required();
  command->add_flag("--no-generation-prompt", options->no_generation_prompt,
                    "end after the last message, without the opening of an answer");
  options->variables.add_to(*command);
  options->variables.add_offered_to(*command);
  command
      ->add_option("--bos-token", options->bos,
                   "value of the template's bos_token (default: the model's)")
      ->type_name("TEXT");
  command
      ->add_option("--eos-token", options->eos,
                   "value of the template's eos_token (default: the model's)")
      ->type_name("TEXT");
  command
      ->add_option("--date", options->date,
                   "YYYY-MM-DD, for templates that contain the date (default: today)")
      ->type_name("DATE");
  command->footer(
      "The text is printed exactly: no newline is added at its end.\n\n"
      "Examples:\n"
      "  cria template -m model.gguf --messages chat.json\n"
      "  cria template --template my.jinja --messages chat.json --bos-token \"<s>\"");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
