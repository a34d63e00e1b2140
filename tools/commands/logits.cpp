// `cria logits`: what the model predicts after each of the given tokens, as raw numbers.
#include "model/gguf/writer.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/input.h"
#include "tools/options/model.h"
#include "tools/report/generation.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/output_file.h"
#include "tools/terminal/progress.h"

namespace cria::tools {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string tokens, output;
};

std::vector<TokenId> parse_tokens(const std::string& text, std::size_t n_vocab) {
  try {
    return parse_ids(text, n_vocab);
  } catch (const Error& error) {
    throw CLI::ValidationError("--tokens", error.what());
  }
}

int run(LogitsOptions options) {
  if (options.output == "-") refuse_terminal();
  const std::atomic<bool>& interrupted = catch_interrupts();
  const auto model = load_model(options.model);
  const std::vector<TokenId> ids = parse_tokens(options.tokens, model->config().n_vocab);
  if (ids.empty()) throw CLI::ValidationError("--tokens", "expected at least one token id");
  if (options.model.session.n_ctx == 0) {
    options.model.session.rope_ctx = model->config().n_ctx_train;
    options.model.session.n_ctx = static_cast<std::uint32_t>(ids.size());
  }
  const auto session = open_session(*model, options.model);
  require_room(*session, ids.size());

  require_other_file(model->file(), options.output);
  OutputFile file(options.output);
  Progress progress("evaluating", "tokens", ids.size());
  session->eval_all(ids, [&](std::size_t index, std::span<const float> logits) {
    if (interrupted) throw Interrupted();
    file.write({reinterpret_cast<const char*>(logits.data()), logits.size_bytes()});
    progress.update(index + 1);
  });
  file.finish();
  print_profile(session->profile(), options.model);
  return 0;
}

}  // namespace

void add_logits(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "logits", "Write the logits after each token: float32, [tokens x vocabulary]");
  auto options = std::make_shared<LogitsOptions>();
  command->add_option("--tokens", options->tokens, "token ids, separated by commas")
      ->type_name("ID,ID,...")
      ->required();
  command
      ->add_option("-o,--output", options->output,
                   "file for the raw values, little-endian (-: stdout)")
      ->type_name("FILE")
      ->required();
  add_model_options(*command, options->model);
  command->footer("Example:\n  cria logits -m model.gguf --tokens 1,450,7483 -o out.f32");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
