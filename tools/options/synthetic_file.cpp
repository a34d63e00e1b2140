#include "tools/options/synthetic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "model/error.h"
#include "tools/options/nearest.h"
#include "tools/options/types.h"

namespace cria::tools {

SyntheticSpec parse_synthetic(const std::string& spec) {
  const auto wrong = [](const std::string& what) { return Error("", what); };
  const std::size_t colon = spec.find(':');
  if (colon == std::string::npos)
    throw wrong("expected SHAPE:TYPE, for example 1.1b:Q4_K, got " + spec);
  const std::string shape = spec.substr(0, colon), type = spec.substr(colon + 1);
  std::vector<std::string> shapes;
  for (const ModelShape& known : model_shapes()) shapes.push_back(known.name);
  if (std::ranges::find(shapes, shape) == shapes.end())
    throw wrong("there is no shape " + shape + suggestion(shape, shapes) +
                " (there are: " + CLI::detail::join(shapes, ", ") + ")");
  const DTypeInfo* info = find_dtype(std::string_view(type));
  if (info == nullptr || info->dot == DotClass::None) throw wrong(unknown_type_text(type));
  return {find_shape(shape), *info};
}

std::string check_synthetic(const std::string& spec) {
  try {
    static_cast<void>(parse_synthetic(spec));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

SyntheticFile::SyntheticFile(const std::string& spec, const std::string& keep, Weights weights)
    : path_(keep) {
  const auto [shape, type] = parse_synthetic(spec);
  if (keep.empty())
    path_ = (std::filesystem::temp_directory_path() /
             ("cria-bench-" + std::to_string(getpid()) + "-" + std::string(type.name) + ".gguf"))
                .string();
  if (weights == Weights::Random)
    write_synthetic(shape, type.id, path_);
  else
    write_hollow(shape, type.id, path_);
  if (keep.empty()) forget_name();
}

SyntheticFile::~SyntheticFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void SyntheticFile::forget_name() {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const int failed = descriptor_ < 0 ? errno : 0;
  unlink(path_.c_str());
  if (failed != 0) throw Error(path_, std::string("cannot be opened: ") + std::strerror(failed));
  path_ = "/proc/" + std::to_string(getpid()) + "/fd/" +
          std::to_string(descriptor_);  // other ranks open it, too
}

}  // namespace cria::tools
