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

int run(const std::string& type_name) {
  const DTypeInfo* type = find_dtype(std::string_view(type_name));
  if (type == nullptr) throw CLI::ValidationError("TYPE", unknown_type_text(type_name));
  constexpr std::size_t kBlocks = 1024;
  std::vector<std::byte> blocks(kBlocks * type->block_bytes);
  std::vector<float> values(kBlocks * type->block_values);
  std::uint64_t total = 0;
  while (const std::size_t bytes = std::fread(blocks.data(), 1, blocks.size(), stdin)) {
    total += bytes;
    if (bytes % type->block_bytes != 0)
      throw Error("stdin", "not whole blocks: expected a multiple of " + counted(type->block_bytes, "byte") +
                               ", got " + std::to_string(total));
    const std::size_t n = bytes / type->block_bytes * type->block_values;
    type->dequantize(blocks.data(), values.data(), n);
    write_stdout({reinterpret_cast<const char*>(values.data()), n * sizeof(float)});
  }
  if (std::ferror(stdin) != 0) throw Error("stdin", "cannot be read");
  flush_stdout();
  return 0;
}

}  // namespace

void add_dequant(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("dequant", "Raw blocks of a tensor type on stdin to raw float32 on stdout");
  auto type = std::make_shared<std::string>();
  command->add_option("TYPE", *type, "tensor type: Q4_K, IQ2_XS, BF16, ...")->required();
  command->footer("Example:\n  cria dequant Q4_K < blocks > values.f32");
  on_run(command, [type] { return run(*type); });
}

}  // namespace cria::tools
