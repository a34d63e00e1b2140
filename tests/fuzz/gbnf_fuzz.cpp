// Grammars in GBNF: compiled and followed.
#include "tests/fuzz/mask_walk.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

void run_gbnf(std::string_view input) { walk_masks(*Constraint::gbnf(input), input); }

std::vector<std::string> gbnf_seeds() {
  return {
      "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num "
      "| \"(\" ws "
      "expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
      "root ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\"\nvalue "
      "::= root | "
      "string\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
      "[0-9a-fA-F]{4}))* "
      "\"\\\"\"\n"
      "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}",
      "# comment\nroot ::= \"a\"{2,} [^a-z]{0,3} . | x?\nx ::= \"\\u00e9\" root \"\\x41\"",
      "root ::= \"a\" root \"b\" | [é東] root | \"\"",
      "root ::= [ab]* | [a-c]* \"x\" | .*",
      "root ::= x{256} \"b\"\nx ::= \"a\"{1,256}\n",
      "root ::= root"};
}

std::vector<std::string> gbnf_words() {
  return {"::=", "root", "\"\\\"\"", "[^",  "[a-z]", "]*", "{1,9}", "{,3}",
          "{2}", ")+",   " | ",      "\\x", "\\u",   "\n", "."};
}

}  // namespace

const Target kGbnf{"gbnf", run_gbnf, gbnf_seeds, nullptr, gbnf_words};

}  // namespace cria::fuzz
