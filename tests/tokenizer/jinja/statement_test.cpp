// Tags and white space, on the variables of jinja.h.
#include <gtest/gtest.h>

#include "tests/tokenizer/jinja/jinja.h"

namespace cria::testing {
namespace {

TEST(JinjaStatement, Loops) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
       "loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ "
       "loop.previtem }}{{ "
       "loop.nextitem }}{{ loop.cycle('a','b') }}{{ loop.changed(i>1) }};{% endfor %}",
       "1032TrueFalse3101aTrue;2121FalseFalse31032bTrue;3210FalseTrue3101aTrue;"},
      {"{% for i in e %}x{% else %}none{% endfor %}", "none"},
      {"{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{% else %}no{% endfor %}", "3222"},
      {"{% for i in l if i > 9 %}{{ i }}{% else %}no{% endfor %}", "no"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
       "b=1;a=[1, 2.0, None, True];items=I;"},
      {"{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
       "b=1;a=[1, 2.0, None, True];items=I;"},
      {"{% for a, b in [[1,2],[3,4]] %}{{ a }}{{ b }}{% endfor %}", "1234"},
      {"{% for c in 'añb' %}{{ c }}-{% endfor %}", "a-ñ-b-"},
      {"{% for i in [[1,[2]],[3]] recursive %}{{ i if i is number else '<' ~ loop(i) ~ '>' }}{{ "
       "loop.depth "
       "}}{% endfor %}",
       "<12<23>2>1<32>1"},
      {"{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i == 6 %}{% break "
       "%}{% endif "
       "%}{{ i }}{% endfor %}",
       "01245"},
      {"{% for i in l %}{{ loop }}{% break %}{% endfor %}", "<LoopContext 1/3>"},
      {"{% for i in l %}{% for j in l %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index "
       "}}{% "
       "endfor %}",
       "112131111213121121313"},
      {"{% for x in l %}{{ x }}{% endfor %}{{ x }}", "3125"},
      {"{% for m in messages %}{{ m.role ~ ': ' ~ m['content'] }}{% if not loop.last %}, {% endif "
       "%}{% "
       "endfor %}",
       R"(user:  Hi "there" ünï
, assistant: Yo, user: )"},
      {"{% for i in (1,2),(3,4) %}{{ i }}{% endfor %}", "(1, 2)(3, 4)"},
      {"{% for i in 1,2 %}{{ i }}{% endfor %}", "12"},
      {"{% for k in d %}{{ k }}{% endfor %}{% for k, v in d.items()|list %}{{ loop.last }}{% "
       "endfor %}",
       "baitemsFalseFalseTrue"},
      {"{% for a in l recursive %}{{ a }}{% endfor %}", "312"},
      {"{% for (a, b) in [(1,2)] %}{{ a ~ b }}{% endfor %}", "12"},
      {"{% for a, (b, c) in [(1,(2,3))] %}{{ a ~ b ~ c }}{% endfor %}", "123"},
      {"{% for i in l %}{% if 1 %}{% continue %}{% endif %}{% else %}none{% endfor %}", "none"},
      {"{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}", ""},
      {"{% for i in l %}{% break %}{% else %}none{% endfor %}", "none"},
      {"{% for i in l %}{{ loop }}{% break %}{% endfor %}", "<LoopContext 1/3>"},
  };
  for (const auto& [source, printed] : cases) EXPECT_EQ(rendered(source), printed) << source;
}

TEST(JinjaStatement, Variables) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% set y = 1 %}{% for i in l %}{{ y }}{% set y = i %}{{ y }}{% endfor %}{{ y }}",
       "1311121"},
      {"{% set ns = namespace(a=0) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a "
       "}}",
       "6"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
      {"{% set z %}hello {{ x }}{% endset %}[{{ z }}]", "[hello 5]"},
      {"{% set z | upper %}hello {{ x }}{% endset %}[{{ z }}]", "[HELLO 5]"},
      {"{% for i in [1,2] %}{% set z %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endset "
       "%}[{{ z "
       "}}]{% endfor %}",
       "[2]"},
      {"{% for i in [1,2] %}{% set z %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endset %}[{{ "
       "z }}]{% "
       "endfor %}",
       "[1]"},
      {"{% for i in [1,2] %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}b{% "
       "endfilter %}c{% "
       "endfor %}",
       "ABc"},
      {"{% set z = 'a' %}{% generation %}{% set z = 'b' %}{{ z }}{% endgeneration %}{{ z }}", "ba"},
      {R"(line1
  {% set a = 1 %}   
line2)",
       R"(line1
   
line2)"},
      {"{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "12"},
      {"{% with %}{% set k=1 %}{{ k }}{% endwith %}{{ k }}", "1"},
      {"{% set it = l|map('string') %}{{ it|list }}{{ it|list }}", "['3', '1', '2'][]"},
      {"{% set loop = 3 %}{{ loop }}", "3"},
      {"{% set ns = namespace({'a':1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}{{ ns.c is defined "
       "}}",
       "121False"},
      {"{% set ns = namespace(a=1) %}{{ ns }}", "<Namespace {'a': 1}>"},
      {"{% if true %}{% set v = 3 %}{% endif %}{{ v }}", "3"},
      {"{% set messages = messages[1:] %}{{ messages|length }}{{ messages[0].role }}",
       "2assistant"},
      {"{%- set a = '' -%}   {{- a -}}   end", "end"},
      {"{% set x = [] %}{% set x = x + [1] %}{{ x }}", "[1]"},
      {"{% set d2 = dict(d, c=3) %}{{ d2|length }}", "4"},
      {"{{ joiner()() }}{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c", "a; b; c"},
      {"{% set c = cycler('x','y') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}",
       "xyyx"},
      {"{% set x = 1, 2 %}{{ x }}", "(1, 2)"},
      {"{% set (a, b) = (1, 2) %}{{ a ~ b }}", "12"},
  };
  for (const auto& [source, printed] : cases) EXPECT_EQ(rendered(source), printed) << source;
}

TEST(JinjaStatement, Rest) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% if x %}a{% endif %}{% if n %}a{% elif x == 5 %}b{% else %}c{% endif %}", "ab"},
      {"{{ x }}", "5"},
      {"x  {% if t %}  y  {% endif %}  z", "x    y    z"},
      {"{% filter upper %}abc {{ s }}{% endfilter %}", "ABC HELLO WORLD"},
      {"{% filter replace('a','b')|upper %}abc{% endfilter %}", "BBC"},
      {"{% generation %}abc{{ x }}{% endgeneration %}", "abc5"},
      {R"({{ "}}" }}{{ '{%' }})", "}}{%"},
      {"{{ {'a':{'b':1}}['a']['b'] }}", "1"},
      {"{{ {'a':1}}}", "{'a': 1}"},
      {"{{ x if x is defined else 'u' }}{{ 'a' if zz is defined else 'b' }}", "5b"},
      {"{% if zz is defined and zz %}a{% else %}b{% endif %}", "b"},
      {"{% if messages[0]['role'] == 'system' %}s{% else %}n{% endif %}", "n"},
      {"{{ messages[5] }}|", "|"},
      {R"(	{% if x %}	tab{% endif %})", R"(	tab)"},
      {R"({{ '%s' % x }}{{ "%s" | format(x) }})", "55"},
      {"{{ (x,) }}{{ (1,'a') }}{{ [(1,)] }}", "(5,)(1, 'a')[(1,)]"},
      {"{{ dict(a=1, **{'b':2}) }}{{ range(*[1,3])|list }}", "{'a': 1, 'b': 2}[1, 2]"},
      {"{{ dict(a=1)|tojson }}{{ {'a': x, 'b': [f, none]}|tojson(indent=2) }}", R"({"a": 1}{
  "a": 5,
  "b": [
    2.5,
    null
  ]
})"},
      {"{{ []|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ [[]]|tojson(indent=1) }}", R"([]{}[
 []
])"},
      {"{% if l %}{% endif %}x{% if e %}y{% endif %}", "x"},
      {"{% if 'a' in {'a':1} and 'b' not in {'a':1} %}yes{% endif %}", "yes"},
      {"{% if d.a is string %}s{% elif d.a is iterable and d.a is not mapping %}it{% endif %}",
       "it"},
      {"{{ x|default(1)|string|length }}{{ ''|default('e', true) }}", "1e"},
      {"{{ - 1 }}{{ -(-1) }}{{ not not x }}", "-11True"},
      {"{{ (l|sort)[0] }}{{ l|sort|first }}", "11"},
      {"{{ ([1,2]|list).0 }}", "1"},
      {"{{ 'a' % zz }}{{ '%s' % zz }}", "a"},
  };
  for (const auto& [source, printed] : cases) EXPECT_EQ(rendered(source), printed) << source;
}

TEST(JinjaStatement, MacrosAndCalls) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ "
       "m() }}{{ "
       "m(b=1,a=0) }}",
       "12x1232x01x"},
      {"{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,3,z=4) }}",
       "1(2, 3){'z': 4}"},
      {"{% macro m(a) %}<{{ caller(a) }}>{% endmacro %}{% call(q) m(3) %}q={{ q }}{% endcall %}",
       "<q=3>"},
      {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(3) }}",
       "3210"},
      {"{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}", "2"},
      {"{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "312"},
      {"{% macro a() %}{% set v = 3 %}{{ v }}{% endmacro %}{{ a() }}{{ v }}", "3"},
  };
  for (const auto& [source, printed] : cases) EXPECT_EQ(rendered(source), printed) << source;
}

TEST(JinjaStatement, WhiteSpaceAndRawText) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% raw %}{{ x }}{% if %}{% endraw %}|", "{{ x }}{% if %}|"},
      {"{%- raw -%}  {{ x }}  {%- endraw -%}  |", "{{ x }}|"},
      {"a {# comment {{ x }} #} b", "a  b"},
      {"a {#- comment -#} b", "ab"},
      {R"(  {# c #}
b)",
       "b"},
      {R"(  {% if x %}
  y
  {% endif %}
z)",
       R"(  y
z)"},
      {R"(  {%+ if x %}
  y
  {%- endif +%}
z)",
       R"(    y
z)"},
      {R"(a
   {{ x }}
b)",
       R"(a
   5
b)"},
      {"  {{- x -}}  b", "5b"},
      {R"({{ x }}
)",
       "5"},
      {"{%if x%}a{%endif%}{%-if x-%} b {%-endif-%}", "ab"},
      {R"(a{% if x %}

b{% endif %}

c)",
       R"(a
b
c)"},
      {R"({{ "a\
b" }})",
       "ab"},
      {R"({{ 'ab'
 'cd' }})",
       "abcd"},
  };
  for (const auto& [source, printed] : cases) EXPECT_EQ(rendered(source), printed) << source;
}

TEST(JinjaStatement, RaisesWhereJinjaDoes) {
  const char* const cases[] = {
      "{% for a, b in [[1,2,3]] %}{{ a }}{% endfor %}",
      "{% for a in x %}{% endfor %}",
      "{% set q.a = 1 %}",
      "{% set a, b = 1 %}",
      "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1,2) }}",
      "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=1) }}",
      "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ x }}{% endcall %}{{ m() "
      "}}",
      "{% macro m() %}x{% endmacro %}{% call m() %}b{% endcall %}",
      "{% break %}",
      "{% include 'x' %}",
      "{% nope %}",
      "{% if x %}",
      "{% endif %}",
      "{% for i in l %}",
      "{{ x",
      "{% if x",
      "{# x",
      "{{ 'a",
      "{% raw %}x",
      "{% set x %}",
      "{% macro m(a=1,b) %}{% endmacro %}",
      "{% set true = 1 %}",
      "{{ [1,2]|map('string')|join }}{{ [1,2]|map('unknownf')|list }}",
      "{{ m(1) }}{% macro m(a) %}{{ a }}{% endmacro %}",
      "{% set it = l|select('odd') %}{{ it|first }}{{ it|list }}{{ it|length }}",
      "{{ loop.index }}",
      "{{ messages[5].role }}",
      "{{ x is defined is true }}",
      "{{ caller() }}",
      "{% call x() %}{% endcall %}",
      "{{ s|replace('World', x) }}{{ s.replace('World', x) }}",
      "{{ s[1:-1:2] }}{{ s[-3:] }}{{ s[:3] }}{{ s[5:2] }}{{ l[-2:] }}{{ l[::-2] }}{{ s[::0] }}",
      "{{ 'x' * -1 }}{{ 3 * 'ab' }}{{ [0] * 3 }}{{ 'a' * 1.5 }}",
      "{{ d|indent }}",
  };
  for (const char* const source : cases) EXPECT_THROW((void)rendered(source), Error) << source;
}

}  // namespace
}  // namespace cria::testing
