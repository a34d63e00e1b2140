// The subcommands of `cria`: each function declares one, with its options, its help and what it
// does.
#pragma once

#include <CLI/CLI.hpp>

namespace cria::tools {

/// All of them, and what the program says of itself.
void add_commands(CLI::App& app);

void add_chat(CLI::App& app);
void add_run(CLI::App& app);
void add_batch(CLI::App& app);
void add_serve(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_template(CLI::App& app);
void add_logits(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_quantize(CLI::App& app);
void add_imatrix(CLI::App& app);
void add_split(CLI::App& app);
void add_merge(CLI::App& app);
void add_edit(CLI::App& app);
void add_dequant(CLI::App& app);
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);
void add_plan(CLI::App& app);
void add_sweep(CLI::App& app);
void add_convert(CLI::App& app);
void add_export(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);
void add_list(CLI::App& app);
void add_config(CLI::App& app);
void add_help(CLI::App& app);
void add_version(CLI::App& app);

}  // namespace cria::tools
