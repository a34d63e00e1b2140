#include <gtest/gtest.h>

#include "engine/constrain/constraint.h"

namespace cria {
namespace {

TEST(Gbnf, TakesTheTextsOfItsRoot) {
  struct Case {
    const char* grammar;
    std::vector<const char*> good, bad;
  };
  const Case cases[] = {
      {R"(root ::= "a"{5,5})", {"aaaaa"}, {"aaaa", "aaaaaa"}},
      {R"(root ::= "a"{2,} "b"{0,2} "c"{3})", {"aaccc", "aaaabbccc"}, {"accc", "aabbbccc", "aacc"}},
      {"root ::= word (\", \" word){0,3} \"!\"\nword ::= \"yes\" | \"no\"",
       {"yes!", "no, yes!"},
       {"yes", "yes, !", "no,no!"}},
      {"root ::= [a-f] [^a-z] [-x] [\\]^] .",
       {"aA-]z", "f1x^\xF0\x9F\xA6\x99"},
       {"gA-]z", "aa-]z"}},
      {"# comment\nroot ::= \"tab\\t\" \"\\x41\" \"\\u00e9\" # more",
       {"tab\tA\xC3\xA9"},
       {"tab\tAe"}},
      {"root ::= (\"a\" # two\n  {2}\n  [b] + ) ? \"c\" {2} x\nx ::= \"d\" # one\n",
       {"ccd", "aabbccd"},
       {"aaccd", "cd"}},
      {"root ::= (\n  \"a\" |\n  \"b\"\n)\n", {"a", "b"}, {"", "c"}},
      {"root ::= x\n  | y\nx ::= \"x\"\ny ::= \"y\"\n", {"x", "y"}, {"xy"}},
      {"root ::=\n  x |\n  y\n\nx ::= \"x\"\ny ::= \"y\"\n", {"x", "y"}, {"xy"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()", "())"}},
      {"root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"[\" root \"]\"",
       {"1", "1,[2,[33]],4"},
       {"", "1,", "[1"}},
      {"root ::= ws \"x\" ws\nws ::= ([ \\t\\n] ws)?", {"x", "  x\n\t"}, {"", "xx"}},
      {"root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"", {"d", "aaadbcb"}, {"aadb"}},
      {"root ::= a a a \"x\"\na ::= \"a\"?", {"x", "ax", "aaax"}, {"aaaax"}},
      {"root ::= (\"a\"*)* (\"b\"?)+ \"\"", {"", "aabb"}, {"ba"}},
  };
  for (const Case& one : cases) {
    std::shared_ptr<const Constraint> constraint;
    ASSERT_NO_THROW(constraint = Constraint::gbnf(one.grammar)) << one.grammar;
    for (const char* const text : one.good)
      EXPECT_TRUE(constraint->accepts(text)) << one.grammar << ": " << text;
    for (const char* const text : one.bad)
      EXPECT_FALSE(constraint->accepts(text)) << one.grammar << ": " << text;
  }
}

TEST(Gbnf, ReportsThePlaceOfAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {"root ::= (\"a\"", "line 1, column 14"},
      {"other ::= \"a\"", "line 1, column 14"},
      {"root ::= \"x\" other", "line 1, column 14"},
      {"root ::= root \"a\" | \"b\"", "line 1, column 1"},
      {"root ::= x \"a\"\nx ::= \"b\"? root", ""},
      {"root ::= (\"\" | \"c\") root", ""},
      {"root ::= \"a", ""},
      {"root ::= [a-", ""},
      {"root ::= [b-a]", "line 1, column 11"},
      {"hello world", "line 1, column 7"},
      {"root ::= \"a\" \"\\q\"", "line 1, column 15"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1"},
      {"root ::= \"a\")", "line 1, column 13"},
      {"root ::= \"a\"{2,1}", ""},
      {"root ::= \"a\" root", ""},
      {"root ::= !<think>", "line 1, column 11"},
      {"root ::= !\"a\"*", "line 1, column 11"},
      {"root ::= ((((\"a\"{1,9999}){1,9999}){1,9999}){1,999999})", ""},
      {"", ""},
  };
  for (const auto& [grammar, place] : cases) {
    try {
      Constraint::gbnf(grammar);
      ADD_FAILURE() << grammar << " is taken";
    } catch (const ConstraintError& error) {
      if (*place != '\0') {
        EXPECT_EQ(error.place, place) << grammar << ": " << error.what();
      }
    }
  }
  std::string deep = "root ::= ";
  for (int i = 0; i < 100000; ++i) deep += "(";
  EXPECT_THROW(Constraint::gbnf(deep), ConstraintError);
}

// Parses are not followed one by one; too many of them are an error. A rule that ends with a call
// of itself is a loop and uses no stack.
TEST(Gbnf, ParsesLongTextsOfTailRecursiveRules) {
  const auto repeated = [](const std::string& text, const std::string& last) {
    std::string all;
    for (int i = 0; i < 20'000; ++i) all += text;
    return all + last;
  };
  const std::string list = "root ::= item \",\" root | item\nitem ::= [a-z]+ | \"(\" root \")\"";
  EXPECT_TRUE(Constraint::gbnf("root ::= ([a-z] root)?")->accepts(repeated("a", "")));
  EXPECT_TRUE(Constraint::gbnf("root ::= [a-z] root | \".\"")->accepts(repeated("a", ".")));
  EXPECT_FALSE(Constraint::gbnf("root ::= [a-z] root | \".\"")->accepts(repeated("a", "")));
  EXPECT_TRUE(Constraint::gbnf(list)->accepts(repeated("ab,", "(c,d)")));
  EXPECT_FALSE(Constraint::gbnf(list)->accepts(repeated("ab,", "(c,d")));
  EXPECT_TRUE(Constraint::gbnf("root ::= ((a root) | \".\")\na ::= \"x\" | \"y\" a")
                  ->accepts(repeated("yx", ".")));
}

TEST(Gbnf, AcceptsAmbiguousGrammars) {
  const auto pairs = Constraint::gbnf(
      "root ::= \"x\" | \"(\" root \")\" | \"x\" root | \"x\" \"x\" root | \"x\" root \"x\"");
  EXPECT_TRUE(pairs->accepts(std::string(100, 'x')));
  EXPECT_FALSE(pairs->accepts(std::string(100, 'x') + ")"));
  const auto two = Constraint::gbnf(
      "root ::= a\na ::= \"x\" a \"y\" | \"x\" a \"z\" | \"x\" b \"y\" | \"x\"\nb ::= \"x\" a "
      "\"y\" | \"x\" "
      "a \"z\" | \"x\"");
  EXPECT_TRUE(two->accepts(std::string(61, 'x') + std::string(60, 'y')));
  EXPECT_FALSE(two->accepts(std::string(61, 'x') + std::string(61, 'y')));
  std::string wide = "root ::= \"a\"";
  for (int i = 0; i < 300; ++i) wide += " | \"a\" root \"b\"";
  const auto many = Constraint::gbnf(wide);
  EXPECT_TRUE(many->accepts("aaabb"));
  EXPECT_THROW((void)many->accepts(std::string(1000, 'a')), ConstraintError);
}

}  // namespace
}  // namespace cria
