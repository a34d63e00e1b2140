// The recipe for a tensor type in CONTRIBUTING.md lists exactly the files that name MXFP4.
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

/// Returns a section of CONTRIBUTING.md.
std::string section(const std::string& title) {
  const std::string text = read_source("CONTRIBUTING.md");
  const std::size_t begin = text.find("## " + title + "\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find("\n## ", begin) - begin);
}

/// Returns the paths of its list items, "- `path`: …".
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

/// Returns the source files below `folders` with a match.
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

/// Each file must match a path, and each path a file.
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
        << path << " is listed in CONTRIBUTING.md, but does not name MXFP4";
  }
}

TEST(Contributing, ListsTheFilesOfATensorType) {
  const std::string text = section("A new tensor type");
  std::vector<std::string> paths = listed(text);
  EXPECT_EQ(paths.size(), 8U);
  EXPECT_NE(text.find("Eight files"), std::string::npos);
  // All parts exist for MXFP4.
  for (const char* const other : {"kernels/README.md", "tests/data/dequant/TYPE.blocks"}) {
    ASSERT_EQ(std::erase(paths, other), 1U) << other;
  }
  EXPECT_NE(read_source("kernels/README.md").find("MXFP4"), std::string::npos);
  EXPECT_TRUE(fs::exists(kRoot / "tests/data/dequant/MXFP4.blocks"));
  ASSERT_NE(text.find("`kernels/gemv/avx512_row_FAMILY.h`"), std::string::npos);
  paths.insert(paths.end(),
               {"tests/kernels/contributing_test.cpp", "kernels/gemv/avx512_row_FAMILY.h"});
  const auto files = files_with(std::regex("MXFP4\\b"), {"kernels", "model", "tests/kernels"});
  expect_listed(files, paths, "FAMILY", "[a-z0-9_]+");
}

// A list of types elsewhere would miss the next type.
TEST(Contributing, NoOtherFileListsTypes) {
  const std::set<std::string> known = {
      "kernels/formats/dtype.h",        // the list of types
      "engine/quantize/mix_rules.cpp",  // rules of the mixes
      "engine/quantize/budget.cpp",     // types of files of a given size; the others are not used
      "engine/quantize/ordered_pipeline.h",  // values above 65504; the others hold none
      "engine/calibrate/row_codes.cpp"       // grids and codebooks; a type without pack() does not
                                             // compile
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
      EXPECT_LE(names.size(), 7U) << file << " lists types";
    }
  }
}

}  // namespace
}  // namespace cria
