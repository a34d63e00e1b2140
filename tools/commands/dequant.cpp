// `cria dequant`: raw blocks of a tensor type to float32.
#include <vector>

#include "kernels/formats/dtype.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/types.h"
#include "tools/terminal/standard_output.h"

namespace cria::tools {
namespace {

constexpr std::uint64_t kMaxColumns = std::uint64_t{1} << 24;

/// Values that are decoded as a whole: a row where the user says how long one is, else a block.
std::uint64_t unit_of(const DTypeInfo& type, std::uint64_t columns) {
  if (columns == 0 && type.header_bytes == 0) return type.block_values;
  const std::string name(type.name);
  if (columns == 0)
    throw CLI::ValidationError(
        "--columns", "rows of " + name + " begin with a header: say how many values one has");
  if (columns % type.block_values != 0 || columns > kMaxColumns)
    throw CLI::ValidationError("--columns", "expected a multiple of " +
                                                std::to_string(type.block_values) + " for " + name +
                                                ", at most " + std::to_string(kMaxColumns) +
                                                ", got " + std::to_string(columns));
  return columns;
}

int run(const std::string& type_name, std::uint64_t columns) {
  const DTypeInfo* type = find_dtype(std::string_view(type_name));
  if (type == nullptr) throw CLI::ValidationError("TYPE", unknown_type_text(type_name));
  refuse_terminal();
  constexpr std::size_t kValues = std::size_t{1} << 18;
  const std::size_t unit = unit_of(*type, columns), unit_bytes = type->row_bytes(unit);
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
    type->dequantize_rows(blocks.data(), values.data(), n, unit);
    write_stdout({reinterpret_cast<const char*>(values.data()), n * unit * sizeof(float)});
  }
  if (std::ferror(stdin) != 0) throw Error("stdin", "cannot be read");
  flush_stdout();
  return 0;
}

}  // namespace

void add_dequant(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "dequant", "Convert raw blocks of a tensor type (stdin) to raw float32 (stdout)");
  auto type = std::make_shared<std::string>();
  auto columns = std::make_shared<std::uint64_t>(0);
  command->add_option("TYPE", *type, "tensor type: Q4_K, IQ2_XS, BF16, ...")->required();
  command
      ->add_option("--columns", *columns,
                   "values per row; needed for types whose rows begin with a header (IQ4_KS)")
      ->type_name("N");
  command->footer(
      "Examples:\n  cria dequant Q4_K < blocks > values.f32\n  cria dequant IQ4_KS --columns 4096 "
      "< rows > "
      "values.f32");
  on_run(command, [type, columns] { return run(*type, *columns); });
}

}  // namespace cria::tools
