// `cria logits` and `cria dequant`: raw numbers of a model and of a tensor type.
#include <vector>

#include "kernels/formats/dtype.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/answer.h"
#include "tools/terminal/terminal.h"

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
    throw UsageError("--tokens", error.what());
  }
}

int run(LogitsOptions options) {
  if (options.output == "-") refuse_terminal();
  const std::atomic<bool>& interrupted = catch_interrupts();
  const auto model = load_model(options.model);
  const std::vector<TokenId> ids = parse_tokens(options.tokens, model->config().n_vocab);
  if (ids.empty()) throw UsageError("--tokens", "expected at least one token id");
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
  print_profile(session->profile(), options.model.profile);
  return 0;
}

}  // namespace

void add_logits(Program& program) {
  Command& command =
      program.add("logits", "Write the logits after each token: float32, [tokens x vocabulary]");
  auto options = std::make_shared<LogitsOptions>();
  command.add({
      {"--tokens",
       "ID,ID,...",
       "token ids, separated by commas",
       into::text(options->tokens),
       {.required = true}},
      {"-o,--output",
       "FILE",
       "file for the raw values, little-endian (-: stdout)",
       into::text(options->output),
       {.required = true}},
  });
  command.add(model_flags(options->model));
  command.notes = "Example:\n  cria logits -m model.gguf --tokens 1,450,7483 -o out.f32";
  command.run = [options] { return run(*options); };
}

namespace {

constexpr std::uint64_t kMaxColumns = std::uint64_t{1} << 24;

/// Values that are decoded as a whole: a row where the user says how long one is, else a block.
std::uint64_t unit_of(const DTypeInfo& type, std::uint64_t columns) {
  if (columns == 0 && type.header_bytes == 0 && type.deinterleave == nullptr)
    return type.block_values;
  const std::string name(type.name);
  if (columns == 0)
    throw UsageError("--columns",
                     "rows of " + name +
                         (type.header_bytes != 0 ? " begin with a header" : " are interleaved") +
                         ": say how many values one has");
  if (columns % type.block_values != 0 || columns > kMaxColumns)
    throw UsageError("--columns", "expected a multiple of " + std::to_string(type.block_values) +
                                      " for " + name + ", at most " + std::to_string(kMaxColumns) +
                                      ", got " + std::to_string(columns));
  return columns;
}

int run(const std::string& type_name, std::uint64_t columns) {
  const DTypeInfo* type = find_dtype(std::string_view(type_name));
  if (type == nullptr) throw UsageError("TYPE", unknown_type_text(type_name));
  refuse_terminal();
  constexpr std::size_t kValues = std::size_t{1} << 18;
  const std::size_t unit = unit_of(*type, columns) * type->interleaved_rows,
                    unit_bytes =
                        type->row_bytes(unit / type->interleaved_rows) * type->interleaved_rows;
  const std::size_t units = std::max<std::size_t>(1, kValues / unit);
  std::vector<std::byte> blocks(units * unit_bytes);
  std::vector<float> values(units * unit);
  std::uint64_t total = 0;
  while (const std::size_t bytes = std::fread(blocks.data(), 1, blocks.size(), stdin)) {
    total += bytes;
    if (bytes % unit_bytes != 0)
      throw Error("stdin", std::string(columns == 0 ? "not whole blocks" : "not whole rows") +
                               ": expected a multiple of " + counted(unit_bytes, "byte") +
                               ", got " + std::to_string(total));
    const std::size_t n = bytes / unit_bytes;
    type->dequantize_rows(blocks.data(), values.data(), n * type->interleaved_rows,
                          unit / type->interleaved_rows);
    write_stdout({reinterpret_cast<const char*>(values.data()), n * unit * sizeof(float)});
  }
  if (std::ferror(stdin) != 0) throw Error("stdin", "cannot be read");
  return 0;
}

}  // namespace

void add_dequant(Program& program) {
  Command& command =
      program.add("dequant", "Convert raw blocks of a tensor type (stdin) to raw float32 (stdout)");
  auto type = std::make_shared<std::string>();
  auto columns = std::make_shared<std::uint64_t>(0);
  command.add({
      {"TYPE", "", "tensor type: Q4_K, IQ2_XS, BF16, ...", into::text(*type), {.required = true}},
      {"--columns", "N", "values per row; needed for types whose rows begin with a header (IQ4_KS)",
       into::number(*columns, 1, 9007199254740992.0)},
  });
  command.notes =
      "Examples:\n  cria dequant Q4_K < blocks > values.f32\n  cria dequant IQ4_KS --columns 4096 "
      "< rows > "
      "values.f32";
  command.run = [type, columns] { return run(*type, *columns); };
}

}  // namespace cria::tools
