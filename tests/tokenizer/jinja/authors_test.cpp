// No filter or function makes user text trusted.
#include <gtest/gtest.h>

#include "tests/tokenizer/jinja/jinja.h"

namespace cria::testing {
namespace {

/// Trusted text as it is, the rest in «quotes».
std::string marked(std::string_view source) {
  const jinja::Text text = render(source);
  std::string out;
  std::size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    const std::string part = text.bytes().substr(begin, run.end - begin);
    out += run.trusted ? part : "«" + part + "»";
    begin = run.end;
  }
  return out;
}

TEST(JinjaAuthors, SurviveEveryOperation) {
  const std::pair<const char*, const char*> cases[] = {
      {"<a>{{ s }}</a>", "<a>«Hello World»</a>"},
      {"{{ '<a>' + s + '</a>' }}", "<a>«Hello World»</a>"},
      {"{{ '<a>' ~ s ~ x ~ '</a>' }}", "<a>«Hello World»5</a>"},
      {"{{ s|trim }}{{ s.strip('H') }}", "«Hello Worldello World»"},
      {"{{ ('<' + s + '>')|upper }}", "<«HELLO WORLD»>"},
      {"{{ ('<' + s + '>')|title }}", "<«Hello World»>"},
      {"{{ ('<' + s + '>')[0:4] }}{{ ('<' + s + '>')[::-1] }}", "<«Hel»>«dlroW olleH»<"},
      {"{{ ('a-' + s).split('-') }}", "['a', '«Hello World»']"},
      {"{{ s.split('o')[1] }}", "« W»"},
      {"{{ s.replace('World', '<b>') }}{{ '<x>'.replace('x', s) }}", "«Hello »<b><«Hello World»>"},
      {"{{ '-'.join(names) }}", "«bob»-«Alice»-«carol»"},
      {"{{ names|join('<s>') }}", "«bob»<s>«Alice»<s>«carol»"},
      {"{{ '%s|%5s' % (s, 'x') }}", "«Hello World»|    x"},
      {"{{ '{}|{a}'.format(s, a='x') }}", "«Hello World»|x"},
      {"{{ names }}", "['«bob»', '«Alice»', '«carol»']"},
      {"{{ d.a|tojson }}{{ names|tojson }}",
       "[1, 2.0, null, true][\"«bob»\", \"«Alice»\", \"«carol»\"]"},
      {"{{ {'k': messages[0].content}|tojson }}", "{\"k\": \"« Hi \\\"there\\\" ünï\\n»\"}"},
      {"{% for k, v in d|items %}{{ k }}{% endfor %}", "«baitems»"},
      {"{% for c in s %}{{ c }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}", "«He»"},
      {"{% set b %}<{{ s }}>{% endset %}{{ b }}", "<«Hello World»>"},
      {"{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(s) }}", "<«Hello World»>"},
      {"{% filter upper %}<{{ s }}>{% endfilter %}", "<«HELLO WORLD»>"},
      {"{% set ns = namespace(v=s) %}{{ ns.v }}{{ dict(a=s).a }}", "«Hello WorldHello World»"},
      {"{{ dict(**d)|list|first }}{{ dict(k=1, **d)|list|first }}", "«b»k"},
      {"{% macro m() %}{{ kwargs|list|first }}{% endmacro %}{{ m(**d) }}{{ m(k=1) }}", "«b»k"},
      {"{{ s|default('x') }}{{ zz|default(s) }}", "«Hello WorldHello World»"},
      {"{{ ('<b>' + s)|e }}", "&lt;b&gt;«Hello World»"},
      {"{{ ml|indent(1) }}", "«a»\n\n «b»\n «c»"},
      {"{{ s.center(13, '*') }}{{ s.partition(' ') }}",
       "*«Hello World»*('«Hello»', '« »', '«World»')"},
      {"{{ names|sort|first }}{{ names|map('upper')|list|last }}{{ names|max }}",
       "«AliceCAROLcarol»"},
      {"{{ s|truncate(8, false, '...', 0) }}{{ s|string|safe|lower|capitalize }}",
       "«Hello»...«Hello world»"},
      {"{{ bos_token }}{{ x }}{{ f }}{{ t }}{{ n }}", "<s>52.5TrueNone"},
  };
  for (const auto& [source, wanted] : cases) EXPECT_EQ(marked(source), wanted) << source;
}

TEST(JinjaAuthors, TextsOfBothCompareByTheirBytes) {
  EXPECT_EQ(rendered("{{ s == 'Hello World' }}{{ d['b'] }}{{ messages[0]['role'] == 'user' }}{{ "
                     "'bob' in names }}"),
            "True1TrueTrue");
}

}  // namespace
}  // namespace cria::testing
