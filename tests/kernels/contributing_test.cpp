// CONTRIBUTING.md says which files a new tensor type and a new instruction set touch: held against
// those that are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace cria {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = fs::path(CRIA_TEST_DATA).parent_path().parent_path();

std::string read_source(const fs::path& file) {
  std::ifstream in(kRoot / file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A section of CONTRIBUTING.md, from its title to the next.
std::string section(const std::string& title) {
  const std::string text = read_source("CONTRIBUTING.md");
  const std::size_t begin = text.find("## " + title + "\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find("\n## ", begin) - begin);
}

/// The paths that its list begins with: "- `path`".
std::vector<std::string> listed(const std::string& text) {
  const std::regex item("\n- `([^`]*)`");
  std::vector<std::string> paths;
  for (std::sregex_iterator i(text.begin(), text.end(), item), end; i != end; ++i)
    paths.push_back((*i)[1]);
  return paths;
}

bool matches(const std::string& file, const std::string& pattern, const std::string& placeholder,
             const std::string& name) {
  const std::string any = std::regex_replace(pattern, std::regex("\\*"), "[^/]*");
  const std::string expression = std::regex_replace(any, std::regex(placeholder), name);
  return std::regex_match(file, std::regex(expression));
}

/// Source files below the given folders whose text has a match.
std::set<std::string> files_with(const std::regex& what, const std::vector<const char*>& folders) {
  std::set<std::string> found;
  for (const char* const folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".txt") continue;
      const std::string file = fs::relative(entry.path(), kRoot).generic_string();
      if (std::regex_search(read_source(file), what)) found.insert(file);
    }
  }
  return found;
}

/// Every file is one of the list, and every path of the list is one of the files.
void expect_listed(const std::set<std::string>& files, const std::vector<std::string>& paths,
                   const std::string& placeholder, const std::string& name) {
  for (const std::string& file : files) {
    EXPECT_TRUE(std::ranges::any_of(
        paths, [&](const std::string& path) { return matches(file, path, placeholder, name); }))
        << file << " is not listed in CONTRIBUTING.md";
  }
  for (const std::string& path : paths) {
    EXPECT_TRUE(std::ranges::any_of(
        files, [&](const std::string& file) { return matches(file, path, placeholder, name); }))
        << path << " is listed in CONTRIBUTING.md, but does not name the witness";
  }
}

TEST(Contributing, ListsTheFilesOfATensorType) {
  const std::string text = section("A new tensor type");
  std::vector<std::string> paths = listed(text);
  EXPECT_EQ(paths.size(), 8U);
  EXPECT_NE(text.find("Eight files"), std::string::npos);
  // The witness is MXFP4, which has all of these and a kernel of its own for one token.
  for (const char* const other : {"kernels/README.md", "tests/data/dequant/TYPE.blocks"}) {
    ASSERT_EQ(std::erase(paths, other), 1U) << other;
  }
  EXPECT_NE(read_source("kernels/README.md").find("MXFP4"), std::string::npos);
  EXPECT_TRUE(fs::exists(kRoot / "tests/data/dequant/MXFP4.blocks"));
  ASSERT_NE(text.find("`kernels/gemv/wide_FAMILY.h`"), std::string::npos);
  paths.insert(paths.end(), {"tests/kernels/contributing_test.cpp", "kernels/gemv/wide_FAMILY.h"});
  const auto files = files_with(std::regex("MXFP4\\b"), {"kernels", "model", "tests/kernels"});
  expect_listed(files, paths, "FAMILY", "[a-z0-9_]+");
}

// A list of types elsewhere is one that the next type is missing from.
TEST(Contributing, NoOtherFileListsTypes) {
  const std::set<std::string> known = {
      "kernels/formats/dtype.h",       // the list
      "engine/quantize/mix_rules.cpp"  // what the mixes are made of
  };
  for (const char* const folder : {"kernels", "model", "tokenizer", "engine", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path extension = entry.path().extension();
      const std::string file = fs::relative(entry.path(), kRoot).generic_string();
      if ((extension != ".h" && extension != ".cpp") || known.contains(file)) continue;
      const std::string text = read_source(file);
      const std::regex type(R"(DType::(I?Q[0-9]\w*))");
      std::set<std::string> names;
      for (std::sregex_iterator i(text.begin(), text.end(), type), end; i != end; ++i)
        names.insert((*i)[1]);
      EXPECT_LE(names.size(), 7U) << file << " names so many types that it is a list of its own";
    }
  }
}

TEST(Contributing, ListsTheFilesOfAnInstructionSet) {
  const std::string text = section("A new instruction set");
  const std::vector<std::string> paths = listed(text);
  EXPECT_EQ(paths.size(), 16U);
  EXPECT_NE(text.find("Sixteen files"), std::string::npos);
  // The witness is avx2, by its tag, or by the macro in preprocessor conditions.
  auto files = files_with(std::regex(R"(\b(Avx2\b|avx2 |__AVX2__))"), {"kernels"});
  for (const char* const other : {"kernels/isa/avxvnni.cpp", "kernels/isa/avxvnni_gemv.cpp"})
    ASSERT_EQ(files.erase(other), 1U);  // take its kernels and replace some
  expect_listed(files, paths, "NAME", "avx2");
}

}  // namespace
}  // namespace cria
