#include "tools/commands/commands.h"

#include "tools/cli/command_line.h"
#include "tools/cli/settings.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

void add_commands(Program& program) {
  program.description = "Runs LLaMA-family language models in GGUF files on ordinary CPUs.";
  program.notes =
      "Try `cria chat`. `cria help COMMAND` shows the options of a command. Without -m, the "
      "bundled "
      "demo model is used.";
  for (const auto add :
       {add_chat,       add_run,    add_batch,      add_serve,    add_tokenize, add_template,
        add_embed,      add_rerank, add_perplexity, add_quantize, add_imatrix,  add_split,
        add_merge,      add_edit,   add_logits,     add_dequant,  add_inspect,  add_bench,
        add_plan,       add_sweep,  add_convert,    add_export,   add_list,     add_config,
        add_completion, add_man,    add_help,       add_version})
    add(program);
  add_preset_flags(program);
}

void add_help(Program& program) {
  Command& command = program.add("help", "Show what a command does and its options");
  auto name = std::make_shared<std::string>();
  command.add({{"COMMAND", "", "the command (default: all, one line each)", into::text(*name)}});
  command.notes = "Example:\n  cria help run";
  command.run = [&program, name] {
    const Command* const named = program.find(*name);
    if (named == nullptr && !name->empty()) throw UsageError(unknown_command(program, *name));
    write_stdout(named == nullptr ? help_text(program) : help_text(*named, false));
    return 0;
  };
}

void add_version(Program& program) {
  Command& command = program.add("version", "Print the program's version");
  command.notes = "Example:\n  cria version";
  command.run = [] {
    write_stdout(version_text() + "\n");
    return 0;
  };
}

}  // namespace cria::tools
