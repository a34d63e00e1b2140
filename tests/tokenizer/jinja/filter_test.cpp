// The output of every filter on the variables of jinja.h.
#include <gtest/gtest.h>

#include "tests/tokenizer/jinja/jinja.h"

namespace cria::testing {
namespace {

TEST(JinjaFilter, PrintsAsJinja) {
  const std::pair<const char*, const char*> cases[] = {
      {"l|sort", "[1, 2, 3]"},
      {"names|sort", "['Alice', 'bob', 'carol']"},
      {"names|sort(case_sensitive=true)", "['Alice', 'bob', 'carol']"},
      {"names|sort(reverse=true)", "['carol', 'bob', 'Alice']"},
      {"nest|sort(attribute='k.v')", "[{'k': {'v': 1}}, {'k': {'v': 2}}, {'k': {'v': 3}}]"},
      {"[none, none]|sort", "[None, None]"},
      {"messages|sort(attribute='zz')|map(attribute='role')|join(' ')", "user assistant user"},
      {"nest|map(attribute='k.v')|list", "[1, 3, 2]"},
      {"nest|map(attribute='z.v', default='x')|list", "['x', 'x', 'x']"},
      {"nest|groupby('z.v', default='x')|map('first')|list", "['x']"},
      {"names|map('upper')|list", "['BOB', 'ALICE', 'CAROL']"},
      {"names|map('length')|list", "[3, 5, 5]"},
      {"l|select('odd')|list", "[3, 1]"},
      {"l|reject('odd')|list", "[2]"},
      {"l|select|list", "[3, 1, 2]"},
      {"nest|selectattr('k.v','gt',1)|list", "[{'k': {'v': 3}}, {'k': {'v': 2}}]"},
      {"nest|rejectattr('k.v')|list", "[]"},
      {"messages|selectattr('role','equalto','user')|list",
       R"([{'role': 'user', 'content': ' Hi "there" ünï\n'}, {'role': 'user', 'content': ''}])"},
      {"n|selectattr('type')|list", "[]"},
      {"none|map('upper')|list", "[]"},
      {"missing|reject|list", "[]"},
      {"0|map('no such filter')|list", "[]"},
      {"l|sum", "6"},
      {"nest|sum(attribute='k.v')", "6"},
      {"l|max", "3"},
      {"l|min", "1"},
      {"names|max", "carol"},
      {"e|max", ""},
      {"l|first", "3"},
      {"e|first", ""},
      {"l|last", "2"},
      {"s|last", "d"},
      {"s|first", "H"},
      {"s|length", "11"},
      {"l|length", "3"},
      {"d|length", "3"},
      {"zz|length", "0"},
      {"s|list", "['H', 'e', 'l', 'l', 'o', ' ', 'W', 'o', 'r', 'l', 'd']"},
      {"d|list", "['b', 'a', 'items']"},
      {"d|items|list", "[('b', 1), ('a', [1, 2.0, None, True]), ('items', 'I')]"},
      {"d|dictsort", "[('a', [1, 2.0, None, True]), ('b', 1), ('items', 'I')]"},
      {"d|tojson", R"({"b": 1, "a": [1, 2.0, null, true], "items": "I"})"},
      {"d|tojson(indent=2)", R"({
  "b": 1,
  "a": [
    1,
    2.0,
    null,
    true
  ],
  "items": "I"
})"},
      {"messages|tojson",
       R"([{"role": "user", "content": " Hi \"there\" ünï\n"}, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": ""}])"},
      {"u|tojson", R"("Straße ǆ ΑΣ")"},
      {R"("a\x7fb"|tojson(ensure_ascii=true))", R"("a\u007fb")"},
      {"u|tojson(ensure_ascii=true)", R"("Stra\u00dfe \u01c6 \u0391\u03a3")"},
      {"'<a&b>'|tojson", R"("<a&b>")"},
      {"d|tojson(separators=(',',':'))", R"({"b":1,"a":[1,2.0,null,true],"items":"I"})"},
      {"d|tojson(sort_keys=true)", R"({"a": [1, 2.0, null, true], "b": 1, "items": "I"})"},
      {R"('\\u0001\\x7f\\n'|tojson)", R"("\\u0001\\x7f\\n")"},
      {"s|upper", "HELLO WORLD"},
      {"s|lower", "hello world"},
      {"s|capitalize", "Hello world"},
      {"u|capitalize", "Straße ǆ ας"},
      {"'hello-world (foo) [bar]'|title", "Hello-World (Foo) [Bar]"},
      {"s|title", "Hello World"},
      {"s|trim", "Hello World"},
      {"' x '|trim", "x"},
      {"'xxaxx'|trim('x')", "a"},
      {"n|trim", "None"},
      {"s|reverse", "dlroW olleH"},
      {"l|reverse|list", "[2, 1, 3]"},
      {"s|replace('o','0')", "Hell0 W0rld"},
      {"s|replace('l','L',1)", "HeLlo World"},
      {"x|string", "5"},
      {"f|string", "2.5"},
      {"f|int", "2"},
      {"'42'|int", "42"},
      {"'4x'|int", "0"},
      {"'4x'|int(7)", "7"},
      {"'0x1f'|int(0,16)", "31"},
      {"'3.7'|int", "3"},
      {"'3.7'|float", "3.7"},
      {"'x'|float", "0.0"},
      {"f|round", "2.0"},
      {"2.345|round(2)", "2.35"},
      {"2.5|round", "2.0"},
      {"3.5|round", "4.0"},
      {"-2.5|round", "-2.0"},
      {"42.55|round(1,'floor')", "42.5"},
      {"42.55|round(1,'ceil')", "42.6"},
      {"42|round", "42"},
      {"x|abs", "5"},
      {"-3.5|abs", "3.5"},
      {"zz|default('D')", "D"},
      {"n|default('D')", "None"},
      {"n|default('D',true)", "D"},
      {"zz|d('q')", "q"},
      {"l|join", "312"},
      {"l|join('-')", "3-1-2"},
      {"nest|join(',',attribute='k')", "{'v': 1},{'v': 3},{'v': 2}"},
      {"[1,2,1,'a','A']|unique|list", "[1, 2, 'a']"},
      {"l|batch(2)|list", "[[3, 1], [2]]"},
      {"[1,2,3]|batch(2,'x')|list", "[[1, 2], [3, 'x']]"},
      {"[1,2,3,4,5]|slice(2)|list", "[[1, 2, 3], [4, 5]]"},
      {"[1,2,3,4,5]|slice(3,'f')|list", "[[1, 2], [3, 4], [5, 'f']]"},
      {"[1,2]|slice(2,'f')|list", "[[1, 'f'], [2, 'f']]"},
      {"s|wordcount", "2"},
      {"'foo bar baz qux'|truncate(9)", "foo..."},
      {"'foo bar baz qux'|truncate(11)", "foo bar baz qux"},
      {"'foo bar baz qux'|truncate(9,true)", "foo ba..."},
      {"ml|indent", R"(a

    b
    c)"},
      {"ml|indent(2,true)", R"(  a

  b
  c)"},
      {"ml|indent(2,blank=true)", R"(a
  
  b
  c)"},
      {"ml|indent('>')", R"(a

>b
>c)"},
      {"s|escape", "Hello World"},
      {"'%s %s'|format('a',1)", "a 1"},
      {"'%(a)s'|format(a=2)", "2"},
      {"d|attr('b')", ""},
      {"nest|groupby('k.v')",
       "[(1, [{'k': {'v': 1}}]), (2, [{'k': {'v': 2}}]), (3, [{'k': {'v': 3}}])]"},
      {"nest|groupby('k.v')|list",
       "[(1, [{'k': {'v': 1}}]), (2, [{'k': {'v': 2}}]), (3, [{'k': {'v': 3}}])]"},
      {"s|safe", "Hello World"},
      {"range(3)|list", "[0, 1, 2]"},
      {"range(2,10,3)|list", "[2, 5, 8]"},
      {"range(5,0,-2)|list", "[5, 3, 1]"},
      {"l is sequence|d is mapping", "False"},
      {"l is sequence|d is mapping|d is sequence", "False"},
      {"d.keys()|list", "['b', 'a', 'items']"},
  };
  for (const auto& [expression, printed] : cases)
    EXPECT_EQ(value_of(expression), printed) << expression;
}

}  // namespace
}  // namespace cria::testing
