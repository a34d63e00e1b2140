// The commands of `cria`: each function adds one, with its flags, its help and what it does.
#pragma once
#include "tools/cli/flag.h"

namespace cria::tools {

/// All commands, and the description of the program.
void add_commands(Program& program);

void add_chat(Program& program);
void add_run(Program& program);
void add_batch(Program& program);
void add_serve(Program& program);
void add_tokenize(Program& program);
void add_template(Program& program);
void add_embed(Program& program);
void add_rerank(Program& program);
void add_logits(Program& program);
void add_perplexity(Program& program);
void add_quantize(Program& program);
void add_imatrix(Program& program);
void add_split(Program& program);
void add_merge(Program& program);
void add_edit(Program& program);
void add_dequant(Program& program);
void add_inspect(Program& program);
void add_bench(Program& program);
void add_plan(Program& program);
void add_sweep(Program& program);
void add_convert(Program& program);
void add_export(Program& program);
void add_completion(Program& program);
void add_man(Program& program);
void add_list(Program& program);
void add_config(Program& program);
void add_help(Program& program);
void add_version(Program& program);

}  // namespace cria::tools
