// Places of errors, and limits on hostile templates.
#include <gtest/gtest.h>

#include "tests/tokenizer/jinja/jinja.h"

namespace cria::testing {
namespace {

TEST(JinjaError, ReportsLineAndColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ zz.y }}", "test: 'zz' is undefined (at line 1, column 6)"},
      {"a\nb {{ x + 's' }}",
       "test: unsupported operand type(s) for +: 'int' and 'str' (at line 2, column 8)"},
      {"{% if x %}\n\n  {{ raise_exception('no such role') }}{% endif %}",
       "test: no such role (at line 3, column 21)"},
      {"{{ x | nope }}", "test: no filter named 'nope' (at line 1, column 8)"},
      {"{% nope %}", "test: unknown tag 'nope' (at line 1, column 4)"},
      {"{% if x %}", "test: expected 'elif', got the end of the template (at line 1, column 11)"},
      {"ä{{ 1 1 }}", "test: expected '}}', got '1' (at line 1, column 7)"},
      {"{{ 'abc }}", "test: a string has no end (at line 1, column 4)"},
      {"{{ x ", "test: a tag has no end (at line 1, column 1)"},
      {"{# x", "test: a comment has no end (at line 1, column 1)"},
      {"{{ (1] }}", "test: unexpected ']', expected ')' (at line 1, column 6)"},
      {"{{ l.append(1) }}",
       "test: access to attribute 'append' of 'list' object is unsafe: templates may not change "
       "values (at "
       "line 1, "
       "column 12)"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(error_of(source), message) << source;
}

TEST(JinjaError, SourceMustBeTextOfSaneSize) {
  EXPECT_EQ(error_of("a\xFF"), "test: the template is not UTF-8");
  EXPECT_NE(error_of(std::string((1 << 20) + 1, 'a')).find("too large: expected at most 1 MiB"),
            std::string::npos);
}

TEST(JinjaLimit, StopsEndlessWork) {
  jinja::Limits limits;
  limits.steps = 10'000;
  const char* const loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
  EXPECT_NE(error_of(loops, limits).find("runs too long"), std::string::npos);
  EXPECT_NE(
      error_of("{{ range(5000)|map('string')|map('string')|list }}", limits).find("runs too long"),
      std::string::npos);
}

TEST(JinjaLimit, BoundsMemory) {
  const char* const sources[] = {
      "{% set ns = namespace(s='012') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{{ 'ab' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{{ 'a'.center(1000000000) }}",
      "{{ 'a'|indent(1000000000) }}",
      "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
      "{{ 'a'.ljust(1000000000) }}",
      "{{ {}|tojson(indent=1000000000) }}",
      "{{ '%9999999999d' % 1 }}",
  };
  for (const char* const source : sources) EXPECT_NE(error_of(source), "") << source;
}

// One step each, were it not for the bytes that they look at.
TEST(JinjaLimit, LongTextsCostMoreThanShortOnes) {
  const std::string texts =
      "{% set x = 'a' * 1024 * 1024 %}{% set y = 'a' * 1024 * 1024 %}{% set d = {y: 1} %}"
      "{% for i in range(99999) %}{% set z = ";
  for (const char* const work : {"x|length",
                                 "d[x]",
                                 "d.get(x)",
                                 "x in d",
                                 "{x: 1}",
                                 "dict([(x, 1)])",
                                 "x == y",
                                 "x < y",
                                 "(x, 1) in [(y, 2)]",
                                 "x.startswith(('b', y))",
                                 "x.endswith('a', 9, 1)",
                                 "x.find('a', 9, 1)",
                                 "x.count('a', 9, 1)",
                                 "(x ~ 'b').removesuffix(y)",
                                 "x.removeprefix(y)",
                                 "x.zfill(1)",
                                 "x.ljust(0)",
                                 "x.lstrip('a')",
                                 "x|int",
                                 "x|float",
                                 "[x]|map(attribute=0)|map(attribute=0)|list",
                                 "e|attr(x)",
                                 "e[x]"})
    EXPECT_NE(error_of(texts + work + " %}{% endfor %}").find("the template "), std::string::npos)
        << work;
  EXPECT_EQ(error_of("{{ " + std::string(2000, 'a') + " }}"),
            "test: a name is too long: expected at most 1024 bytes (at line 1, column 4)");
}

TEST(JinjaLimit, SearchesTakeNoProductOfTwoSizes) {
  EXPECT_EQ(value_of("('a' * 1024 * 4000).rfind('a' * 1024 * 2000 ~ 'b')"), "-1");
  EXPECT_EQ(value_of("('a' * 1024 * 2000).rpartition('a' * 1024 * 1000 ~ 'b')[1]"), "");
  EXPECT_EQ(value_of("('a' * 1024 * 2000).rsplit('a' * 1024 * 1000 ~ 'b')|length"), "1");
  EXPECT_EQ(value_of("('a' * 1024 * 3000)|trim('b' * 1024 * 1000 ~ 'a')"), "");
}

TEST(JinjaLimit, MemoryOfSlicesIsGivenBack) {
  jinja::Limits limits;
  limits.bytes = 1'000'000;
  const std::string list = "{% set l = range(9000) %}";
  EXPECT_NE(error_of(list + "{% set a = l[:] %}{% set b = l[:] %}{% set c = l[:] %}", limits)
                .find("too much memory"),
            std::string::npos);
  EXPECT_EQ(
      error_of(
          list + "{% for i in range(50) %}{% for x in l[i:] %}{% break %}{% endfor %}{% endfor %}",
          limits),
      "");
}

// Each step doubles the printed form, not the value.
TEST(JinjaLimit, LimitsPrintingOfSharedValues) {
  const std::string nest =
      "{% set ns = namespace(v=['x']) %}{% for i in range(90) %}{% set ns.v = [ns.v, ns.v] %}{% "
      "endfor %}";
  EXPECT_NE(error_of(nest + "{{ ns.v }}"), "");
  EXPECT_NE(error_of(nest + "{{ ns.v|tojson }}"), "");
  EXPECT_NE(error_of(nest + "{{ ns }}"), "");
  EXPECT_NE(error_of(nest +
                     "{% set other = namespace(v=['x']) %}{% for i in range(90) %}{% set other.v = "
                     "[other.v, other.v] %}{% endfor %}{{ ns.v == other.v }}"),
            "");
}

TEST(JinjaLimit, BoundsDepth) {
  const auto repeat = [](const std::string& text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  };
  const std::string sources[] = {
      "{{ " + repeat("(", 100'000) + "1" + repeat(")", 100'000) + " }}",
      "{{ " + repeat("[", 100'000) + repeat("]", 100'000) + " }}",
      "{{ " + repeat("not ", 100'000) + "1 }}",
      "{{ " + repeat("-", 100'000) + "1 }}",
      "{{ 1" + repeat("+1", 100'000) + " }}",
      "{{ s" + repeat("|trim", 100'000) + " }}",
      "{{ s" + repeat(".x", 100'000) + " }}",
      repeat("{% if 1 %}", 100'000) + repeat("{% endif %}", 100'000),
      "{% set " + repeat("(", 100'000) + "x" + repeat(")", 100'000) + " = 1 %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{% set ns = namespace(v=1) %}{% for i in range(200) %}{% set ns.v = [ns.v] %}{% endfor %}",
  };
  for (const std::string& source : sources) EXPECT_NE(error_of(source), "") << source.substr(0, 60);
}

// Reference counts alone would never free these (LeakSanitizer tells).
TEST(JinjaLimit, FreesCircles) {
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns] %}{{ "
                     "ns.me.me is defined }}"),
            "True");
  EXPECT_EQ(rendered("{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = "
                     "namespace(n=ns.n) %}{% endfor "
                     "%}{{ ns.n.n.n.n }}"),
            "0");
  EXPECT_EQ(
      rendered(
          "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{% set keep = [m] %}{{ keep[0]() "
          "}}{% endfor %}"),
      "312");
  EXPECT_EQ(
      rendered("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me }}{{ ns }}").substr(0, 17),
      "[<Namespace …>]");
}

// Such chains would be destroyed recursively.
TEST(JinjaLimit, HoldersDoNotNest) {
  const std::string each = "{% set ns = namespace(v='x') %}{% for i in range(9) %}{% set ns.v = ";
  for (const char* const holder :
       {"[ns.v]|select", "joiner(ns.v)", "cycler(ns.v)", "[ns.v].index", "loop"})
    EXPECT_NE(error_of(each + holder + " %}{% endfor %}"), "") << holder;
  EXPECT_EQ(rendered(each + "[ns.v]|select|list %}{% endfor %}{{ ns.v|length }}"), "1");
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.v = l|select('odd') %}{{ ns.v|join }}"),
            "31");
  EXPECT_EQ(rendered("{% for i in l %}{{ loop.changed(loop) }}{% endfor %}"), "TrueTrueTrue");
}

TEST(JinjaLimit, IntegersHave64Bits) {
  EXPECT_EQ(value_of("9223372036854775807"), "9223372036854775807");
  EXPECT_NE(error_of("{{ 9223372036854775807 + 1 }}").find("more than 64 bits"), std::string::npos);
  EXPECT_NE(error_of("{{ 2**64 }}").find("more than 64 bits"), std::string::npos);
  EXPECT_NE(error_of("{{ (-9223372036854775807 - 1) // -1 }}").find("more than 64 bits"),
            std::string::npos);
  EXPECT_EQ(value_of("(-9223372036854775807 - 1) % -1"), "0");
  EXPECT_NE(error_of("{{ 1e20|int }}").find("more than 64 bits"), std::string::npos);
  EXPECT_NE(error_of("{{ '1e20'|int(7) }}").find("more than 64 bits"), std::string::npos);
  EXPECT_EQ(value_of("'inf'|int(7)"), "7");
}

}  // namespace
}  // namespace cria::testing
