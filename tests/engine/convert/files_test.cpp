// `cria convert` and `cria export` write only their own files and directories.
#include <gtest/gtest.h>

#include "tests/engine/convert/hf_cases.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

// The output usually lies in the directory; what a model is made of is not to be replaced.
TEST(ConvertFiles, RejectsOutputAsInput) {
  HfModel hf(hf_case("llama"));
  hf.convert(DType::F32);
  ConvertOptions options;
  const fs::path directory = fs::path(hf.output()).parent_path();
  options.directory = directory.string();
  options.kernels = available_kernels().back();
  fs::create_symlink("model.safetensors", directory / "link");
  for (const auto& [output, input] :
       {std::pair("model.safetensors", "model.safetensors"), std::pair("link", "model.safetensors"),
        std::pair("tokenizer.json", "tokenizer.json")}) {
    options.output = (directory / output).string();
    EXPECT_EQ(error_of([&] { const Conversion conversion(options); }),
              options.output + ": cannot write: it is the input itself (" +
                  (directory / input).string() + ")");
  }
  options.output = (directory / "other.gguf").string();
  EXPECT_NO_THROW(const Conversion conversion(options));
}

// An occupied directory is an error before hours of work, not when the result is moved into place.
TEST(ExportFiles, RejectsDirectoriesItCannotReplace) {
  const HfModel hf(hf_case("llama"));
  const fs::path place = fs::path(hf.reference()).parent_path() / "place",
                 here = fs::current_path();
  fs::create_directory(place);
  fs::create_directory_symlink("place", place.string() + "-link");
  fs::create_symlink("nowhere", place.string() + "-lost");
  ExportOptions options;
  options.file = hf.reference();
  options.kernels = available_kernels().back();
  fs::current_path(place);
  for (const std::string& directory :
       {std::string("."), std::string("./"), place.string() + "-lost"}) {
    options.directory = directory;
    EXPECT_NE(error_of([&] { const Export work(options); }).find("cannot be replaced"),
              std::string::npos)
        << directory;
  }
  fs::current_path(here);
  options.directory = place.string() + "-link/";
  Export work(options);
  EXPECT_TRUE(work.write([](std::uint64_t) { return true; }, [](const ExportedTensor&) {}));
  EXPECT_TRUE(fs::exists(place / "config.json"));
  EXPECT_TRUE(fs::is_symlink(place.string() + "-link")) << "as it was";
}

}  // namespace
}  // namespace cria::test
