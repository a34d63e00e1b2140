// `cria edit`: a copy of a model with other metadata.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/gguf/rewrite.h"
#include "model/plural.h"
#include "tokenizer/chat/chat_template.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/input.h"
#include "tools/options/metadata_value.h"
#include "tools/report/json.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct EditCommand {
  std::string input, output, template_file;
  std::vector<std::string> set, remove;
  bool json = false;
};

GgufEdit parse_edit(const EditCommand& options) {
  GgufEdit edit;
  for (const std::string& text : options.set) edit.set.push_back(parse_metadata("--set", text));
  edit.remove = options.remove;
  if (!options.template_file.empty()) {
    std::string source = read_file(options.template_file);
    (void)ChatTemplate::parse(source, input_name(options.template_file),
                              {});  // refuses what no model could be asked with
    edit.set.emplace_back("tokenizer.chat_template", std::move(source));
  }
  if (edit.set.empty() && edit.remove.empty())
    throw CLI::RequiredError("nothing to edit: expected --set, --remove or --template");
  return edit;
}

/// A reader that looks for the old type would not find the new one.
void warn_of_new_types(const GgufFile& file, const GgufEdit& edit) {
  for (const auto& [key, value] : edit.set) {
    const GgufValue* const before = file.find(key);
    if (before != nullptr && before->type != value.type())
      print_warning(without_controls(key) + " was of type " + std::string(name(before->type)) +
                    ", now " + std::string(name(value.type())));
  }
}

void report(const EditCommand& options, const GgufEdit& edit, const GgufFile& file) {
  const auto bytes = std::filesystem::file_size(options.output);
  if (options.json) {
    const nlohmann::ordered_json json = {{"file", options.output},
                                         {"set", edit.set.size()},
                                         {"removed", edit.remove.size()},
                                         {"tensors", file.tensors().size()},
                                         {"bytes", bytes}};
    write_stdout(json_text(json));
  } else {
    write_text(without_controls(options.output) + ": " + counted(edit.set.size(), "key") +
               " set, " + std::to_string(edit.remove.size()) + " removed, " +
               counted(file.tensors().size(), "tensor") + " as before, " + counted(bytes, "byte") +
               "\n");
  }
  flush_stdout();
}

int run(const EditCommand& options) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  const GgufEdit edit = parse_edit(options);
  const GgufFile file = GgufFile::open(options.input);
  for (const std::string& warning : file.warnings()) print_warning(warning);
  {
    Progress progress("copying", "bytes", file.file_bytes());
    const bool done = write_edited(file, options.output, edit, [&](std::uint64_t bytes) {
      progress.update(bytes);
      return !interrupted;
    });
    if (!done) throw Interrupted();
  }
  warn_of_new_types(file, edit);
  report(options, edit, file);
  return 0;
}

}  // namespace

void add_edit(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("edit", "Write a model with changed metadata and the same tensors");
  auto options = std::make_shared<EditCommand>();
  command->add_option("IN", options->input, "the model (GGUF)")->required();
  command->add_option("OUT", options->output, "the file to write; not IN")
      ->required()
      ->check(named_file());
  command
      ->add_option("--set", options->set,
                   "set a key; TYPE: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string, or one of "
                   "these with "
                   "[] for an array, whose VALUE is JSON; may be repeated")
      ->type_name("KEY=TYPE:VALUE")
      ->allow_extra_args(false);
  command->add_option("--remove", options->remove, "remove a key; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command
      ->add_option("--template", options->template_file,
                   "set the chat template to that of a Jinja2 file (-: stdin)")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "print an object with the file and its size");
  command->footer(
      "Examples:\n"
      "  cria edit model.gguf new.gguf --set general.sampling.temp=f32:0.2\n"
      "  cria edit model.gguf new.gguf --set 'tokenizer.ggml.eot_token_id=u32:7' --remove "
      "general.url\n"
      "  cria edit old.gguf new.gguf --set 'general.languages=string[]:[\"en\", \"fr\"]'\n"
      "  cria edit model.gguf new.gguf --template chat.jinja");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
