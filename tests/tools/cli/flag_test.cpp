// Tables of flags: targets, rules, and how words become values.
#include "tools/cli/flag.h"

#include <gtest/gtest.h>

#include "model/error.h"
#include "tools/cli/command_line.h"
#include "tools/commands/commands.h"

namespace cria::test {
namespace {

using namespace cria::tools;  // NOLINT(google-build-using-namespace)

/// One command, "go", with a flag of each kind.
struct FlagTable : ::testing::Test {
  FlagTable() {
    program.add("go", "Go")
        .add({
            {"-n,--number", "N", "a number", into::number(number, 1, 10)},
            {"--sizes", "N,...", "numbers", into::number(sizes, 0, 100)},
            {"--maybe", "X", "an optional number", into::number(maybe, 0.5, 2)},
            {"-v,--verbose", "", "a switch", into::flag(verbose)},
            {"-t,--text", "TEXT", "a string", into::text(text), {.excludes = "--kind,WORD"}},
            {"--kind", "", "a choice", into::choice(kind, {"a", "b"})},
            {"--type",
             "",
             "a choice",
             into::choice(type, {"F16", "q8"}),
             {.other = "see elsewhere"}},
            {"--each", "TEXT", "strings", into::each(each), {.needs = "--number,--text"}},
            {"WORD", "", "an argument", into::text(word)},
            {"REST", "", "more arguments", into::words(rest)},
        });
  }
  /// "" or the message of the error.
  std::string error_of(Words words) {
    words.insert(words.begin(), "go");
    try {
      set_values(*read_arguments(program, words));
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  Program program;
  int number = 4;
  std::vector<std::size_t> sizes{1, 2};
  std::optional<double> maybe;
  bool verbose = false;
  std::string text, kind = "a", type = "q8", word;
  Words each, rest;
};

TEST_F(FlagTable, SetsEveryKindOfTarget) {
  EXPECT_EQ(error_of({"-n5", "--sizes", "7,8", "9", "--maybe", "1.5", "-vt", "-x", "--each", "p",
                      "--each", "-q"}),
            "");
  EXPECT_EQ(number, 5);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{7, 8, 9}));
  EXPECT_EQ(maybe, 1.5);
  EXPECT_TRUE(verbose);
  EXPECT_EQ(text, "-x");
  EXPECT_EQ(each, (Words{"p", "-q"}));
}

TEST_F(FlagTable, GivesArgumentsInTheirOrder) {
  EXPECT_EQ(error_of({"one", "--verbose=false", "two", "--", "-three"}), "");
  EXPECT_FALSE(verbose);
  EXPECT_EQ(word, "one");
  EXPECT_EQ(rest, (Words{"two", "-three"}));
}

TEST_F(FlagTable, TakesTheLastOfARepeatedFlag) {
  EXPECT_EQ(error_of({"-n", "3", "--number=7"}), "");
  EXPECT_EQ(number, 7);
}

TEST_F(FlagTable, NamesTheInvalidValue) {
  EXPECT_EQ(error_of({"-n", "11"}), "--number: expected a whole number from 1 to 10, got 11");
}

TEST_F(FlagTable, RejectsTrailingLetters) {
  EXPECT_EQ(error_of({"-n", "2x"}), "--number: expected a whole number from 1 to 10, got 2x");
}

TEST_F(FlagTable, NamesExclusiveFlags) {
  EXPECT_EQ(error_of({"-t", "x", "--kind", "b"}), "--text cannot be used together with --kind");
}

TEST_F(FlagTable, NamesRequiredFlags) {
  EXPECT_EQ(error_of({"--each", "x"}), "--each needs --number or --text");
}

TEST_F(FlagTable, NamesTheChoices) {
  EXPECT_EQ(error_of({"--kind", "c"}), "--kind: unknown value c; choose a, b");
}

TEST_F(FlagTable, SaysWhatToDoForOtherValues) {
  EXPECT_EQ(error_of({"--type", "c"}), "--type: unknown value c; choose F16, q8; see elsewhere");
}

TEST_F(FlagTable, TakesChoicesInAnyCase) {
  EXPECT_EQ(error_of({"--kind", "B", "--type", "f16"}), "");
  EXPECT_EQ(kind, "b");
  EXPECT_EQ(type, "F16");
}

TEST_F(FlagTable, NamesMissingValues) {
  EXPECT_EQ(error_of({"--number"}), "--number: needs a value: N, a number");
}

TEST_F(FlagTable, RejectsOtherValuesOfSwitches) {
  EXPECT_EQ(error_of({"--verbose=5"}), "--verbose: expected true or false, got 5");
}

TEST_F(FlagTable, ShowsDefaultsWithinTheBounds) {
  const std::string help = help_text(*program.find("go"), false);
  EXPECT_NE(help.find("a number [4]"), std::string::npos) << help;
  EXPECT_NE(help.find("numbers [1,2]"), std::string::npos) << help;
  EXPECT_NE(help.find("an optional number\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--kind a|b"), std::string::npos) << help;
  EXPECT_NE(help.find("[WORD] [REST...]"), std::string::npos) << help;
}

TEST(Commands, NameOnlyKnownFlagsInTheirRules) {
  Program program;
  add_commands(program);
  for (const Command& command : program.commands)
    for (const Flag& flag : command.flags) {
      for (const std::string& name : parts_of(flag.rules.needs))
        EXPECT_NE(command.find(name), nullptr) << command.name << flag.names << name;
      for (const std::string& name : parts_of(flag.rules.excludes))
        EXPECT_NE(command.find(name), nullptr) << command.name << flag.names << name;
    }
}

TEST(Commands, HaveEachNameOnce) {
  Program program;
  add_commands(program);
  for (const Command& command : program.commands) {
    Words names;
    for (const Flag& flag : command.flags)
      for (const std::string& name : flag.all_names()) {
        EXPECT_EQ(std::ranges::count(names, name), 0) << command.name << name;
        names.push_back(name);
      }
  }
}

}  // namespace
}  // namespace cria::test
