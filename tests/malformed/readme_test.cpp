// The list of cases in tests/README.md names tests that exist, and leaves none out.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

std::set<std::string> all_tests() {
  std::set<std::string> names;
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *unit.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      names.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
  }
  return names;
}

/// What stands in backquotes and begins with "Malformed" and has a dot.
std::set<std::string> named_tests(const std::string& text) {
  std::set<std::string> names;
  for (std::size_t at = text.find("`Malformed"); at != std::string::npos;
       at = text.find("`Malformed", at + 1)) {
    const std::string name = text.substr(at + 1, text.find('`', at + 1) - at - 1);
    if (name.find('.') != std::string::npos) names.insert(name);
  }
  return names;
}

/// The first cells of a table's rows, where they are numbers.
std::set<int> numbered_rows(const std::string& text) {
  std::set<int> numbers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("| ") && line.size() > 2 && line[2] >= '0' && line[2] <= '9')
      numbers.insert(std::stoi(line.substr(2)));
  return numbers;
}

TEST(MalformedReadme, ListsEveryCase) {
  const std::string text = read_file(CRIA_TEST_DATA "/../README.md");
  const std::set<std::string> tests = all_tests(), named = named_tests(text);
  for (const std::string& test : tests)
    EXPECT_TRUE(test.find(".Case") == std::string::npos || named.contains(test)) << test;
  for (const std::string& test : named) EXPECT_TRUE(tests.contains(test)) << test;
  const std::set<int> numbers = numbered_rows(text);
  for (int number = 1; number <= 104; ++number) {
    const bool unused = number == 86 || number == 101 || number == 103;
    EXPECT_EQ(numbers.contains(number), !unused) << number;
  }
}

}  // namespace
}  // namespace cria::test
