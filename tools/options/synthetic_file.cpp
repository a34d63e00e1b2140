#include "tools/options/synthetic_file.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <vector>

#include "tools/options/types.h"

namespace cria::tools {

SyntheticSpec parse_synthetic(const std::string& spec) {
  const auto wrong = [](const std::string& what) { return CLI::ValidationError("--synthetic", what); };
  const std::size_t colon = spec.find(':');
  if (colon == std::string::npos) throw wrong("expected SHAPE:TYPE, for example 1.1b:Q4_K, got " + spec);
  const std::string shape = spec.substr(0, colon), type = spec.substr(colon + 1);
  std::vector<std::string> shapes;
  for (const ModelShape& known : model_shapes()) shapes.push_back(known.name);
  if (std::ranges::find(shapes, shape) == shapes.end())
    throw wrong("there is no shape " + shape + " (there are: " + CLI::detail::join(shapes, ", ") + ")");
  const DTypeInfo* info = find_dtype(std::string_view(type));
  if (info == nullptr || info->dot == DotClass::None) throw wrong(unknown_type_text(type));
  return {find_shape(shape), *info};
}

SyntheticFile::SyntheticFile(const std::string& spec, const std::string& keep, Weights weights)
    : path_(keep), temporary_(keep.empty()) {
  const auto [shape, type] = parse_synthetic(spec);
  if (temporary_)
    path_ = (std::filesystem::temp_directory_path() /
             ("cria-bench-" + std::to_string(getpid()) + "-" + std::string(type.name) + ".gguf"))
                .string();
  if (weights == Weights::Random)
    write_synthetic(shape, type.id, path_);
  else
    write_hollow(shape, type.id, path_);
}

SyntheticFile::~SyntheticFile() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove(path_, ignored);
}

}  // namespace cria::tools
