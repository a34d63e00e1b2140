// Files that are not models: one line that names the file, exit code 1, nothing on stdout.
#include <gtest/gtest.h>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

struct Defect {
  std::string name;
  std::string path;
  std::string says;  // part of the message
};

std::vector<Defect> make_defects(const TempDirectory& directory) {
  const std::string demo = read_file(kDemo);
  return {
      {"missing", directory.path("no-such.gguf"), ""},
      {"directory", directory.path(), "director"},
      {"empty", directory.write("empty.gguf", ""), ""},
      {"html", directory.write("page.gguf", "<!DOCTYPE html>\n<html><body>404</body></html>\n"),
       "HTML"},
      {"header cut", directory.write("header.gguf", demo.substr(0, 50'000)), "ends"},
      {"data cut", directory.write("data.gguf", demo.substr(0, demo.size() - 1)), "ends"},
  };
}

void expect_refusal(const Result& result, const Defect& defect, const std::string& command) {
  const std::string label = command + " of " + defect.name + ": " + result.err;
  EXPECT_EQ(result.code, 1) << label;
  EXPECT_EQ(result.out, "") << label;
  EXPECT_EQ(result.err.find("cria: error: " + defect.path), 0U) << label;
  EXPECT_NE(result.err.find(defect.says), std::string::npos) << label;
  EXPECT_EQ(count_lines(result.err), 1U) << label;
}

TEST(FileErrors, AreOneLineInEverySubcommand) {
  const TempDirectory directory;
  for (const Defect& defect : make_defects(directory)) {
    expect_refusal(cria({"run", "-m", defect.path, "-p", "Hello"}), defect, "run");
    expect_refusal(cria({"chat", "-m", defect.path}, "Hello\n"), defect, "chat");
    expect_refusal(
        cria({"logits", "-m", defect.path, "--tokens", "1", "-o", directory.path("out")}), defect,
        "logits");
    if (defect.name == "data cut") continue;  // these two need no tensor data
    expect_refusal(cria({"tokenize", "-m", defect.path, "-p", "Hello"}), defect, "tokenize");
    expect_refusal(cria({"inspect", defect.path}), defect, "inspect");
  }
  EXPECT_EQ(read_file(directory.path("out")), "");
}

TEST(FileErrors, ModelFromTheEnvironmentIsUsed) {
  const Result result = cria({"run", "-p", "Hello"}, "", {"CRIA_MODEL=/no/such.gguf"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err.find("cria: error: /no/such.gguf"), 0U) << result.err;
}

}  // namespace
}  // namespace cria::test
