// Regular expressions of answers: compiled and followed.
#include "tests/fuzz/mask_walk.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

void run_regular_expression(std::string_view input) {
  walk_masks(*Constraint::regex(input), input);
}

std::vector<std::string> regular_expression_seeds() {
  return {R"(([A-Z][a-z]+ ){1,3}<[\w.]{1,40}@[a-z]+\.(com|org)>)",
          R"(^\d{4}-(0[1-9]|1[0-2])-\d\d$)",
          R"((?:a|b)*?[^\n"]{2,4}\s)",
          R"(\u0041\x42\u{1F600}|\p{Lu}|[é-ü])",
          R"(^a|b$|\bcat\b)",
          R"((a|b)*a(a|b){4})",
          R"([\p{L}\p{N}_]+(?: \P{Lu}\p{Script=Greek}*){0,3})",
          "(?=a)",
          "[",
          ".*"};
}

std::vector<std::string> regular_expression_words() {
  return {"(?:", "{1,9}", "{3,}", "[^", "\\d", "\\w",    "\\s",     "\\b",     "\\u{",       "\\x4",
          "*?",  "+)",    "|",    "^",  "$",   "\\p{L}", "\\P{Nd}", "\\p{sc=", "\\p{Script="};
}

}  // namespace

const Target kRegularExpression{"regular_expression", run_regular_expression,
                                regular_expression_seeds, nullptr, regular_expression_words};

}  // namespace cria::fuzz
