// Every subcommand, and what the program says of itself.
#include "tools/commands/commands.h"

#include "tools/options/command_line.h"
#include "tools/options/help.h"
#include "tools/options/settings.h"

namespace cria::tools {

void add_commands(CLI::App& app) {
  app.set_version_flag("-v,--version", version_text());
  app.require_subcommand(1);
  app.formatter(help_formatter());
  app.footer(
      "Try `cria chat`. `cria help COMMAND` shows the options of a command. Without -m, the "
      "bundled demo "
      "model is used.");
  for (const auto add :
       {add_chat,       add_run,      add_batch,   add_serve,  add_tokenize,   add_template,
        add_perplexity, add_quantize, add_imatrix, add_split,  add_merge,      add_edit,
        add_logits,     add_dequant,  add_inspect, add_bench,  add_plan,       add_sweep,
        add_convert,    add_export,   add_list,    add_config, add_completion, add_man,
        add_help,       add_version})
    add(app);
  add_preset_options(app);
}

}  // namespace cria::tools
