#include "tools/options/chat_template.h"

#include "tools/options/input.h"
#include "tools/terminal/messages.h"

namespace cria::tools {

void add_template_option(CLI::App& command, std::string& wanted) {
  command
      .add_option("--chat-template", wanted,
                  "Jinja2 file, or a built-in one by name: " + ChatTemplate::builtin_names() +
                      " (default: the model's own)")
      ->type_name("FILE");
}

ChatTemplate choose_template(const std::string& wanted, const Vocabulary& vocabulary) {
  if (wanted.empty()) return ChatTemplate::from_vocabulary(vocabulary);
  const TemplateTokens tokens = TemplateTokens::of(vocabulary);
  if (auto builtin = ChatTemplate::builtin(wanted, tokens)) return *builtin;
  return ChatTemplate::parse(read_file(wanted), wanted, tokens);
}

void say_note(std::string& note) {
  if (!note.empty()) print_note(note);
  note.clear();
}

}  // namespace cria::tools
