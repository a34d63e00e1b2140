// Cases 88 to 91: chat templates, which are untrusted programs.
#include <gtest/gtest.h>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

Defect text(const std::string& says, const std::string& source) {
  return {"chat template: " + says + " (at line 1, column *)",
          [=](Image& m) { m.set("tokenizer.chat_template") = source; }};
}
std::string repeated(const std::string& part, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += part;
  return out;
}
void expect_template_refused(const std::vector<Defect>& defects) {
  expect_refused(defects, valid_model(), {"--chat"});
}

TEST(MalformedTemplate, Case088Syntax) {
  expect_template_refused({
      text("*", "{{ messages"),
      text("*", "{% for m in messages %}{{ m.content }}"),
      text("*", "{% endif %}"),
      text("*", "{{ 1 + }}"),
      text("*", "{{ 'a }}"),
      text("*nosuchfilter*", "{{ messages | nosuchfilter }}"),
      text("*nosuchfunction*", "{{ nosuchfunction() }}"),
      text("*nosuchtest*", "{{ messages is nosuchtest }}"),
  });
}

TEST(MalformedTemplate, Case089DepthAndLoops) {
  expect_template_refused({
      text("*nested too deeply",
           "{{ " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + " }}"),
      text("*", "{{ " + repeated("[", 100'000) + " }}"),
      text("*nested too deeply", "{{ " + repeated("-", 100'000) + "1 }}"),
      text("*nested too deeply", repeated("{% if true %}", 10'000)),
      text("*nested too deeply", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
      text("*too *",
           "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"),
      text("*too *", "{% for i in range(10000000000) %}{% endfor %}"),
  });
}

TEST(MalformedTemplate, Case090Output) {
  expect_template_refused({
      text("*too *", "{{ 'x' * 10000000000 }}"),
      text("*too *", "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}"),
      text("*too *",
           "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ "
           "ns.s %}{% "
           "endfor %}{{ ns.s }}"),
      text("*", "{{ messages | map('upper') | join(messages * 1000000000) }}"),
  });
  expect_template_refused(
      {{"chat template: the template is not UTF-8",
        [](Image& m) {
          m.set("tokenizer.chat_template") = std::string("\xFF{{ messages[0].content }}");
        }},
       {"chat template: the template is too large: expected at most 1 MiB, got 2097152 bytes",
        [](Image& m) { m.set("tokenizer.chat_template") = std::string(2 << 20, 'x'); }}});
}

TEST(MalformedTemplate, Case091NoString) {
  const auto value = [](const GgufData& data) {
    return [data](Image& m) { m.set("tokenizer.chat_template") = data; };
  };
  const std::string says = "wrong type of a key: expected string, got ",
                    key = " (key tokenizer.chat_template)";
  expect_refused(
      {{says + "u32" + key, value(1U)},
       {says + "array of string" + key, value(GgufArray::of(std::vector<std::string>{"a"}))}});
}

}  // namespace
}  // namespace cria::test
