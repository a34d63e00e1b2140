#include "tests/fuzz/jinja_seeds.h"

#include <initializer_list>
#include <sstream>
#include <string_view>

namespace cria::fuzz {
namespace {

constexpr const char* kVariables =
    R"({"messages":[{"role":"user","content":"Hi ☃ "},{"role":"assistant","content":"Lo","tool_calls":[)"
    R"({"name":"f","arguments":{"a":[1,2.5,null,true]}}]}],"n":3,"i":-7,"f":2.5,"t":true,"no":null,)"
    R"("s":"a b,c","w":" Ünï ☃\tǅ ","m":"a\n\nb\r\nc","h":"<a & 'b\" 12>","e":"","l":[3,1,2,1],"el":[],)"
    R"("ll":[["b",1],["a",2]],"names":["bob","Alice","carol"],"d":{"k":"v","z":1},"ed":{},)"
    R"("nest":[{"k":{"v":2,"q":[1,2]}},{"k":{"v":1}}],"add_generation_prompt":true})";

/// Returns the words between white space.
std::vector<std::string> split(const char* words) {
  std::istringstream in(words);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::vector<std::string> lines(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

class Seeds {
 public:
  void source(const std::string& source) {
    out_.push_back(source + std::string(1, '\0') + kVariables);
  }
  void expression(const std::string& expression) { source("{{ " + expression + " }}"); }
  std::vector<std::string> take() { return std::move(out_); }

 private:
  std::vector<std::string> out_;
};

// One template per line.
constexpr const char* kSources = R"lines(
{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m['content'] | trim }}{% if loop.last %}!{% else %}{{ loop.index0 }}{% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.length }}{{ loop.previtem }}{{ loop.depth0 }}{{ loop }}{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.nextitem }}{{ loop.depth }}{% endfor %}
{% for x in l if x > 1 %}{% if x == 2 %}{% break %}{% endif %}{% continue %}{% else %}e{% endfor %}
{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif %}{% endfor %}
{% for a, b in d.items() %}{{ a }}{{ b }}{% else %}e{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a + b * c }}{% endfor %}{% for x in el %}{% else %}e{% endfor %}
{% for c in w %}{{ c }}|{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for x in q %}{% endfor %}
{% for x in l|select %}{{ x }}{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}
{% for m in messages[:1] %}{% for x in l[loop.index:] %}{{ x }}{% endfor %}{% endfor %}{{ ('a' * 99).rfind('a' * 50 ~ 'b') }}{{ w | trim('☃ Ü') }}
{% for x in 3 %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{% for x in l %}{{ loop.other }}{{ loop.z.y }}{% endfor %}
{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}
{%- set ns = namespace(found=false) -%}{%- for m in messages if m.role != 'system' -%}{%- set ns.found = true -%}{%- endfor -%}{{ ns.found }}{{ ns }}{{ ns.none }}
{% set a, b = 1, 2 %}{% set c = 1, %}{{ a }}{{ b }}{{ c }}{% set x %}b{% endset %}{{ x }}{% set y | upper | replace('A', s) %}a{% endset %}{{ y }}
{% set (a, b), c = (1, 2), 3 %}{{ a ~ b ~ c }}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{% with %}{% endwith %}
{% set ns = namespace({'a': 1}, b=2) %}{% set ns.c = [ns] %}{% set ns.d = ns %}{{ ns }}{{ ns.c }}{{ [ns] }}
{% set d.x = 1 %}
{% set q.x = 1 %}
{% set true = 1 %}
{% set a, b = q %}
{% set a, b = 1 %}
{% set a, b = l %}
{% for x in l %}{% set ns = namespace(v=loop) %}{% endfor %}
{% set ns = namespace(v='x') %}{% for i in l %}{% set ns.v = [ns.v]|select %}{% endfor %}
{% set ns = namespace(v='x') %}{% for i in range(99) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}{{ ns.v }}
{% macro f(a, b=2) %}{{ a }}{{ b }}{{ caller is defined }}{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}{{ f() }}{{ f }}
{% macro g(x) %}[{{ caller(x) }}{{ varargs }}{{ kwargs }}]{% endmacro %}{% call(y) g(1, 2, k=3) %}x{{ y }}{% endcall %}
{% macro g() %}{{ caller() if caller }}{% endmacro %}{{ g() }}{% call g() %}x{% endcall %}
{% macro h() %}{% endmacro %}{{ h.name }}{{ h.caller }}{{ h.catch_varargs }}{{ h.catch_kwargs }}{{ h.x }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=2) }}
{% macro f(a=1, b) %}{% endmacro %}
{% macro f %}{% endmacro %}
{% macro f(a, *, b) %}{% endmacro %}
{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
{% macro f(*args) %}{% endmacro %}
{% call 1 %}{% endcall %}
{% call s() %}{% endcall %}
{% filter upper %}a{{ s }}{% endfilter %}{% filter replace('a', 'b') | title %}a{% endfilter %}
{% for x in l %}{% filter upper %}{% break %}{% endfilter %}{% endfor %}
{% generation %}a{% endgeneration %}{% if n %}1{% elif t %}2{% else %}3{% endif %}{% if not n %}1{% elif t %}2{% endif %}
{% raw %}{% endraw x %}
{% raw %}{% endraw
{% raw x %}
{{
{{ }}
{% %}
{% if
{# c
{% if n %}
{% endif %}
{% nope %}
{% break %}
{% continue %}
{% for x of l %}{% endfor %}
{% for in l %}{% endfor %}
{{ 'abc }}
{{ 'ab\
{{ (1] }}
{{ 1 ] }}
{{ ? }}
{{ ☃ }}
{{ a.1b }}
{{ a. }}
{{ a | }}
{{ a is }}
{{ 1 is none is none }}
{{ {1 2} }}
{{ f(a=1, 2) }}
{{ f(*l, 2) }}
{{ f(**d, *l) }}
{{ f(**d, a=1) }}
{{ f(**d, **d) }}
{{ 1 2 }}
{% set a.b.c = 1 %}
{{ 012 }}
{{ 9223372036854775808 }}
{{ 1e999 }}
{{ '\ud800' }}
{{ '\u12' }}
{{ '\U00110000' }}
{% import 'x' as y %}
{% block b %}{% endblock %}
{{ loop }}
{{ '\x4' }}
{% set x | nope %}{% endset %}
)lines";

// Templates with line ends, or bytes that are not UTF-8.
constexpr const char* kOddSources[] = {
    "a \n  {%- if n -%}  b  {%- endif +%}\n {{- s -}} \n{#- c -#} \n{# c +#}\n  {%+ if n %}x{% "
    "endif %}\n\n",
    "  {% if n %}\n  x\n  {% endif %}\n{% raw %}{{ x }}{% {% endraw %}y{%- raw -%} {{ {%- endraw "
    "-%} "
    "z\r\nq\r",
    "\xC2"
    "\xA0"
    "{%- if n %}{% endif %}",
    "\xC2"
    "\xA0"
    " {% if n %}{% endif %}{ {a {",
    "{{ 'a' \xC2"
    "\xA0"
    " }}",
    "a\xFF"
    "",
    "{{ '\\u2603\\x41\\n\\t\\101\\q\\\n\\\"\\U0001F600' 'joined' \"it's\" }}"};

// One expression per line: literals, operators with every kind of value, printed values, subscripts
// and slices, calls, formats, filters, JSON, tests, methods.
constexpr const char* kExpressions = R"lines(
[1, 'a', [2], ] + [(3, 4), (), (5,)]
{'a': 1, 2: {'c': 2}, }
0x1F + 0o17 + 0b11 + 1_000 + 0
1.5e-3 + 2E+2 + 1_0.2_5 + 1e16 + 1e-5
[true, True, false, False, none, None]
1, 2
()
{(1, 2): 3, none: 4, 1.5: 5, true: 6}
{[1]: 2}
{{}: 2}
{1.0: 'a'}[1]
l.0
1.5.x
{q: 1}
{range: 1}
7 // 2 - -7 // 2 + 7 % -2 - 2 ** 3 ** 2
7 / 2 ~ 7.5 // 2 ~ 7.5 % -2 ~ -7.5 % 2 ~ 4.0 % 2 ~ -2 ** -1 ~ 2.5 ** 2
9 // -1 + 9 % -1
(-9223372036854775807 - 1) // -1
1 // 0
1 % 0
1 / 0
1.5 / 0
1.5 // 0
1.5 % 0
0 ** -1
0.0 ** -1
(-1.5) ** 0.5
1e300 ** 2
2 ** 62 * 2
2 ** 64
9223372036854775807 + 1
-9223372036854775807 - 2
- (-9223372036854775807 - 1)
+3 - +2.5 + -t + +t
-s
+s
-q
+q
1 + 'a'
'a' + 1
s + q
q + s
l + d
l + (1,)
l - l
s * 2 + 3 * s ~ l * 2 ~ 2 * (1,) ~ s * -1 ~ '' * 9 ~ [] * 9
s * s
'ab' * 9223372036854775807
[1] * 99999999999
d * 2
1 < 2 <= 2 > 1 >= 1 == 1 != 2
1.5 < 2 and 2 >= 1.5 and 1 == 1.0 and 1.5 != 2.5
'a' < 'b' and 'b' >= 'a'
[1, 2] < [1, 3] and (1,) < (1, 2)
[1, [2]] == [1, [2]] and (1,) != [1]
d == {'k': 'v', 'z': 1} and d != {'k': 'v'} and d != {'k': 'v', 'z': 2}
d == {'k': 'v', 'y': 1}
none == none and q == q2 and none != false
range == range
d.keys() == d.keys()
1 < 'a'
d < d
q < 1
1 < q
n in l and 'a' in s and 'k' in d and 9 not in l and 'x' not in q
1 in s
q in s
1 in 1
[1] in d
2 in l|select
2 in range(3)
1 if n > 2 else 0
(1 if n > 9) ~ ''
(1 if n > 9).x
n and 0 or s
not n or not not n
'a' ~ n ~ none ~ 1.0 ~ l ~ d ~ q ~ t
inf
1e308 * 10
-1e308 * 10
1e308 * 10 - 1e308 * 10
(1e308 * 10 - 1e308 * 10) < 1
1e308 * 10 == 'a'
0.0 * -1
1e22 ~ 123456789.125
[s, w, h, m, e, "it's", 'a"b\'c', '\x00\x7f\xa0\u200b\U0001F600', f, i, t, no, q, d, (1,), range(3), range(1, 9, 2)]
[d.keys(), d.values(), d.items(), range, s.upper, messages|select, joiner(), cycler(1)]
d.keys() ~ d.values() ~ d.items()
s[0] ~ s[-1] ~ w[2] ~ s[99] ~ l[-2] ~ l[9] ~ d['k'] ~ d.z ~ d['q'] ~ d[1] ~ l['x'] ~ s[1.5] ~ d[[1]] ~ d[(1, 2)] ~ l[1.5]
d[{}]
l[[1]]
s[::-1] ~ s[1:] ~ s[:2] ~ s[-3:-1] ~ w[1:6:2] ~ w[::-2] ~ s[9:] ~ s[:-9] ~ s[4:1] ~ s[4:1:-1] ~ s[none:none:none]
l[::-1] ~ l[1:3] ~ l[::2] ~ (1, 2, 3)[1:] ~ range(9)[2:5] ~ l[-9:9]
l[::0]
l[:'a']
d[1:]
q[1:]
d.keys()[0]
d.keys()[1:]
q.x
q[0]
n.x
n[0]
none.x
d.items
{'items': 1}.items ~ {'items': 1}['items']
l[-9223372036854775807:9223372036854775807]
l[::9223372036854775807] ~ l[::-9223372036854775807]
messages[0].content.strip().lstrip('H').rstrip().splitlines()
nest[0].k.q.1
range(3)|list ~ range(1, 10, 3)|list ~ range(3, 0, -1)|list ~ range(0)
range('a')
range(q)
range(1, 2, 0)
range(999999)
range()
range(9223372036854775806, 9223372036854775807, 5)|list
range(1, 2, 3, 4)
range(start=1)
range(1, start=2)
range(other=1)
dict(a=1) ~ dict(d, b=2) ~ dict(ll) ~ dict([(1, 2)]) ~ dict(q)
dict(1)
dict(l)
dict([[1]])
dict(1, 2)
dict(*[d], **{'x': 1})
dict(**l)
dict(**{1: 2})
dict(*1)
namespace(a=1).a ~ namespace(d).k ~ namespace()
namespace(l)
cycler('a', 'b').next()
cycler(1).current ~ cycler(1).reset() ~ cycler(1).x ~ cycler(1)
cycler()
cycler(l|select)
cycler(1)()
joiner()() ~ joiner('|')() ~ joiner
joiner(l|select)
joiner().x
raise_exception('no')
raise_exception(l)
raise_exception()
raise_exception(q)
strftime_now('%d %b %Y')
strftime_now('')
strftime_now('a\x00b')
strftime_now(1)
strftime_now('%c%c%c%c%c%c%c%c%c%c%c%c' * 9)
s()
q()
q.f()
none()
d()
(s|upper)()
s|upper()()
'a\xe9'.upper() ~ w.encode
lipsum is defined
'%s-%05.2f-%d' % (s, 1.5, n)
'%(k)s %(z)5d|%(z)-5d|' % d
'%r %r' % (s, l)
'%x %X %o %#x %#o %#X %5.3d' % (255, 255, 8, 255, 8, 255, 5)
'%e %E %g %G %F %.0f %+d % d %+.1f %i %u' % (1.5, 1.5, 1.5, 1e99, 1.5, 2.5, 3, 3, 1.5, 7.9, true)
'%5s|%-5s|%.2s|%%' % ('ab', 'cd', 'efg')
'%-05d|%05d|% 05d|%+05d' % (1, -1, 2, 3)
'%s' % w
'%s %s' % s
'%s' % (1, 2)
'x' % 1
'x' % l
'x' % d
'x' % ()
'%d' % s
'%d' % 1e99
'%d' % (1e308 * 10)
'%f %F' % (1e308 * 10, -1e308 * 10)
'%f' % (1e308 * 10 - 1e308 * 10)
'%z' % 1
'%' % 1
'%5' % 1
'%(k' % d
'%(x)s' % d
'%(k)s' % 1
'%99999d' % 1
'%.9999f' % 1.5
'%c' % 'a'
'%s%s' % (1,)
'%d' % (-9223372036854775807 - 1)
'%s' % q
'{}-{1}-{a}{{}}'.format(1, 2, a=w)
'{} {0} {}'.format(1, 2)
'{2}'.format(1)
'{x}'.format(1)
'{'.format()
'}'.format()
'{}'.format(q)
s|format(1)
'%s %s'|format(1, s)
'%(a)s'|format(a=1)
'%s'|format(1, a=1)
i|abs ~ f|abs ~ (-f)|abs
s|abs
q|abs
s|attr('upper') ~ d|attr('k') ~ d|attr('items') ~ s|attr('x')
q|attr('x')
s|attr(1)
s|attr
l|batch(3)|list ~ l|batch(3, 'x')|list ~ el|batch(2, 1)|list
l|batch(0)
l|batch
l|batch('a')
s|center ~ s|center(20) ~ 'ab'|center(5) ~ n|center(-1)
q|default('x') ~ e|default('x') ~ e|default('x', true) ~ q|d ~ e|default('x', boolean=1)
{'b': 1, 'A': 2}|dictsort ~ d|dictsort(by='value') ~ d|dictsort(true, 'key', true)
l|dictsort
d|dictsort(by='x')
q|dictsort
h|escape ~ h|e ~ l|e
messages|groupby('role') ~ nest|groupby('k.v')|length ~ nest|groupby('q', default='x')
l|groupby
l|groupby([])
[1e308 * 10 - 1e308 * 10]|groupby('x', 1e308 * 10 - 1e308 * 10)
m|indent ~ m|indent(2, true) ~ m|indent(2, first=true, blank=true) ~ m|indent('> ')
n|indent
q|indent
s|indent(s, q)
' 12_3 '|int ~ '1.9'|int ~ 'x'|int ~ 'x'|int(7) ~ '0x1F'|int(0, 16) ~ '0b11'|int(0, 2) ~ '0o17'|int(0, 8) ~ '0x1f'|int(base=0) ~ '-12'|int
'+12'|int ~ 2.9|int ~ true|int ~ none|int ~ '1e3'|int ~ '12'|int(base=0) ~ 1e99|int ~ l|int
'99999999999999999999'|int
'1'|int(0, 99)
q|int
'1.5'|float ~ ' +2 '|float ~ '1e999'|float ~ '1e-999'|float ~ '-1e999'|float ~ 'nan'|float ~ 'inf'|float ~ 'x'|float ~ 'x'|float(2) ~ ''|float ~ '1.5x'|float ~ '--1'|float ~ l|float
q|float
d|items|list ~ q|items|list
l|items
l|join ~ l|join(', ') ~ messages|join('-', attribute='role') ~ ll|join('', 0) ~ s|join('.')
n|join
l|join(attribute=[])
l|first ~ el|first ~ s|first ~ l|last ~ el|last ~ l|select|first ~ ll|map('last')|list
l|select|last
n|first
el|first + 1
el|last + 1
el|max + 1
el|select|first
s|length ~ w|count ~ d|length ~ q|length ~ l|length
n|length
names|map('upper')|list ~ messages|map(attribute='role')|list ~ messages|map(attribute='x', default='y')|list
l|map
l|map(1)
l|map('nope')
l|map(q)
l|map(attribute=1)|list
names|max ~ names|min ~ names|max(case_sensitive=true) ~ nest|max(attribute='k.v') ~ el|min ~ l|max
[1, 'a']|max
l|reject('odd')|list ~ l|select('gt', 1)|list ~ l|select|list ~ messages|selectattr('role', 'equalto', 'user')|list ~ messages|rejectattr('tool_calls')|list
l|select('nope')
l|select(1)
l|selectattr
messages|selectattr('role', 1)
s|replace('a', 'b') ~ s|replace('', '-', 2) ~ s|replace('a', 'bb', none) ~ n|replace(3, 4)
s|replace('a')
s|replace('a', 'b', 'c')
l|reverse|list ~ s|reverse ~ d|reverse|list ~ l|sort|reverse|list
n|reverse
2.5|round ~ 3.5|round ~ 2.345|round(2) ~ 1234|round(-2) ~ 1250.5|round(-2) ~ 2.1|round(0, 'ceil') ~ 2.9|round(method='floor')
3|round ~ true|round ~ (1e308 * 10)|round ~ 1.5|round(999) ~ 1.5|round(-999)
9223372036854775807|round(-1)
s|round
q|round
1|round(0, 'x')
1|round(0, 1)
l|slice(3)|list ~ l|slice(3, 'x')|list ~ l|slice(9)|list
l|slice(0)
l|sort ~ l|sort(true) ~ names|sort ~ names|sort(case_sensitive=true) ~ nest|sort(attribute='k.v') ~ ll|sort(attribute='1,0') ~ ll|sort(attribute=1)
[1, 'a']|sort
nest|sort(attribute='x')
[q, q]|sort
l|sum ~ ll|sum(attribute=1) ~ l|sum(start=10) ~ el|sum
names|sum
l|string ~ n|string|length ~ s|safe
h|title ~ w|title ~ '(a-b [c'|title ~ w|capitalize
w|trim ~ s|trim('ac') ~ n|trim ~ w|trim(none)
s|trim(1)
(s * 99)|truncate ~ s|truncate(3, leeway=0) ~ s|truncate(4, true, '', 0) ~ (s * 9)|truncate(20, false, '☃') ~ s|truncate(9, leeway=none)
s|truncate(1)
s|truncate(9, leeway=-1)
n|truncate
q|truncate
names|unique|list ~ ['A', 'a']|unique|list ~ ['A', 'a']|unique(true)|list ~ nest|unique(attribute='k.v')|list ~ [1, 1.0, true, 'x', none, none, (1,), (1,)]|unique|list
[[1]]|unique
w|upper ~ w|lower
h|wordcount ~ w|wordcount
s|nope
s|upper(1)
s|center(1, 2)
s|trim(chars='a')
s|trim(x=1)
s|trim('a', chars='b')
nest|map(attribute='k.q.0')|list
l|map(attribute='0.x')|list
d|tojson ~ l|tojson ~ s|tojson ~ nest|tojson(indent=2) ~ messages|tojson(indent='\t')
[no, t, not t, n, i, f, 1e99, 0.1, (1, 2), [], {}, h, w, m, '\x01\b\f\\\x7f\U0001F600']|tojson
[w, '\U0001F600']|tojson(ensure_ascii=true)
{'b': 1, 'a': {'z': 1, 'y': 2}}|tojson(sort_keys=true, separators=(',', ':'))
{1: 1, 1.5: 2, none: 3, true: 4}|tojson
{(1, 2): 3}|tojson
{1: 1, 'a': 2}|tojson(sort_keys=true)
[1e308 * 10, -1e308 * 10, 1e308 * 10 - 1e308 * 10]|tojson
q|tojson
range(3)|tojson
d.items()|tojson
s.upper|tojson
l|tojson(indent=-1)
l|tojson(indent=none, separators=none)
l|tojson(separators=1)
l|tojson(separators=(1, 2))
l|tojson(indent=99999999)
l|tojson(indent=1.5)
el|tojson(indent=1) ~ ed|tojson(indent=1)
n is divisibleby 3 and n is divisibleby(3)
s is divisibleby 2
n is divisibleby
n is sameas 3 and n is not sameas 3.0 and l is sameas l and l is not sameas [3] and d is sameas d
n is in l and n is not in [1]
n is in
n is nope
'upper' is filter and 'nope' is not filter and 1 is not filter
'odd' is test and 'nope' is not test
n is eq 3 and n is ne 4 and n is lt 4 and n is le 3 and n is gt 2 and n is ge 3
n is equalto 3 and n is greaterthan 2 and n is lessthan 4
l|select('==', 1)|list ~ l|select('!=', 1)|list ~ l|select('<', 2)|list ~ l|select('<=', 2)|list ~ l|select('>', 2)|list ~ l|select('>=', 2)|list
s is none or n is none and t is true
n is odd(1)
s is odd
s is in [s]
s is in {s: 1}
n is defined else 1
1 if n is defined else 2
s.split(' ')[0].upper().replace('A', 'b') ~ s.split() ~ w.split(none, 1) ~ s.rsplit() ~ w.rsplit(none, 1) ~ 'a b c'.rsplit(none, 1) ~ s.split(',', 0) ~ 'a,b,c'.rsplit(',', 1) ~ ' '.split() ~ ' a  b '.split(none, 0) ~ ' a  b '.rsplit(none, 0)
s.split('')
s.split(1)
s.find('b') ~ s.rfind('b') ~ s.find('z') ~ s.find('b', 3) ~ s.find('b', -9, -1) ~ s.find('b', 99) ~ w.find('☃', none, none) ~ s.index('b') ~ s.rindex('b') ~ s.find('')
s.index('z')
s.find(1)
s.find()
s.find('b', 'c')
s.startswith('a') ~ s.startswith(('x', 'a')) ~ s.endswith('c', 1, 9) ~ s.startswith('a', 9) ~ s.endswith(()) ~ s.startswith('a', 3, 1)
s.startswith(1)
s.startswith(['a'])
s.startswith(q)
s.endswith((1,))
s.count('a') ~ s.count('') ~ s.count('a', 1) ~ s.count('a', 9) ~ 'aaaa'.count('aa')
s.join(names) ~ ', '.join(l|map('string')) ~ s.join('xy') ~ s.join(d) ~ s.join(q)
s.join(l)
s.join([q])
s.join(1)
s.center(9, '*') ~ s.ljust(9) ~ s.rjust(9, '☃') ~ s.center(1) ~ s.center(-1) ~ s.center(10)
s.center(9, 'ab')
s.ljust('a')
s.rjust()
'-5'.zfill(4) ~ '+5'.zfill(4) ~ '5'.zfill(4) ~ '5'.zfill(0)
s.zfill(999999999)
s.partition(' ') ~ s.partition('z') ~ s.rpartition(' ') ~ s.rpartition('z')
s.partition('')
s.partition()
s.strip('ac') ~ w.strip() ~ w.lstrip() ~ w.rstrip() ~ s.strip(none)
s.strip(1)
s.removeprefix('a') ~ s.removesuffix('c') ~ s.removeprefix('z') ~ s.removesuffix('z')
s.replace('a', 'b', 1) ~ s.replace('', '-')
s.replace('a', 1)
m.splitlines() ~ m.splitlines(true) ~ m.splitlines(keepends=true)
'12'.isdigit() ~ '²'.isdigit() ~ '12'.isdecimal() ~ '½'.isnumeric() ~ 'ab'.isalpha() ~ 'a1'.isalnum() ~ ' \t'.isspace() ~ 'ab'.islower() ~ 'AB'.isupper() ~ 'Ab Cd'.istitle() ~ 'ab cd'.istitle() ~ 'AB'.istitle() ~ '☃'.isascii() ~ 'a'.isascii() ~ ''.isascii() ~ ''.isdigit() ~ 'aB'.islower()
w.title() ~ w.swapcase() ~ 'aBc'.swapcase() ~ w.capitalize() ~ 'Straße ǅ ΑΣ'.casefold() ~ w.upper() ~ w.lower() ~ s.upper(1)
s.nope
s.nope()
s.encode()
s.upper.x
s.upper.upper()
l.index(1) ~ l.index(1, 2) ~ l.index(2, -3, 9) ~ l.count(1) ~ l.copy() ~ (1, 2).index(2) ~ (1, 1).count(1) ~ range(3).index(1) ~ range(3).count(1)
l.index(9)
l.index()
l.count()
(1, 2).copy()
l.append(1)
l.append
l.pop() if false
l.sort()
l.nope
d.get('k') ~ d.get('q') ~ d.get('q', 1) ~ d.copy() ~ d.keys()|list ~ d.values()|list ~ d.items()|list
d.get()
d.get([])
d.pop('k')
d.update
d.setdefault('a', 1)
d.keys(1)
d.keys().x
d.items().index(1)
l.copy(1)
[l|select].index
(l|select).x
[range].count(1)
)lines";

constexpr const char* kFilters =
    "abs attr('a') batch(2) capitalize center(9) count default(1) dictsort escape first float "
    "groupby('a') "
    "indent int items join('-') last length list lower "
    "map('string') max min reject replace('a','b') reverse round safe select slice(2) sort string "
    "sum title "
    "tojson trim truncate(3) unique upper wordcount";
constexpr const char* kTests =
    "boolean callable defined escaped false float integer iterable lower mapping none number "
    "sequence string true undefined upper";
constexpr const char* kValues = "s w l d n f t no q e range l|select d.items() (1,2) [q]";
constexpr const char* kMethods =
    "capitalize() casefold() isalnum() isalpha() isascii() isdecimal() isdigit() islower() "
    "isnumeric() "
    "isspace() istitle() isupper() lower() swapcase() title() upper()";

constexpr const char* kWords =
    "{{ }} {% %} {%- -%} {# #} for in if elif else endif endfor set endset macro endmacro call "
    "endcall "
    "filter endfilter with endwith raw endraw break "
    "continue generation endgeneration recursive loop loop.index loop.last loop.previtem "
    "loop.cycle('a') "
    "loop.changed(1) namespace is not and or defined "
    "undefined none true false string mapping iterable sequence number boolean divisibleby sameas "
    "callable "
    "eq ne lt gt ** // ~ | == != <= >= abs attr batch "
    "capitalize center count default d dictsort escape first float format groupby indent int items "
    "join last "
    "length list lower map max min reject "
    "rejectattr replace reverse round safe select selectattr slice sort string sum title tojson "
    "trim "
    "truncate unique upper wordcount .append( .count( "
    ".endswith( .find( .format( .get( .index( .isdigit() .items() .join( .keys() .lower() .lstrip( "
    ".partition( .pop( .removeprefix( .replace( .rfind( "
    ".rsplit( .rstrip( .split( .splitlines() .startswith( .strip( .title() .upper() .values() "
    ".zfill( "
    ".copy() attribute= indent= separators= sort_keys= "
    "ensure_ascii= case_sensitive= range( dict( cycler( joiner( raise_exception( strftime_now( "
    "varargs "
    "kwargs caller() messages content role ns.x [-1] "
    "[::2] [1:] %s %r %d %(k)s %05.2f 1e308 9223372036854775807 \\u2603 \\x00";

}  // namespace

std::vector<std::string> jinja_seeds() {
  Seeds seeds;
  for (const std::string& source : lines(kSources)) seeds.source(source);
  for (const char* const source : kOddSources) seeds.source(source);
  for (const std::string& expression : lines(kExpressions)) seeds.expression(expression);
  const std::string deep = std::string(120, '(') + "1" + std::string(120, ')');
  seeds.expression(deep);
  seeds.expression("1 " + deep);
  for (const std::string& value : split(kValues)) {
    for (const std::string& filter : split(kFilters))
      seeds.expression(joined({"(", value, ")|", filter}));
    std::string all = "''";
    for (const std::string& test : split(kTests)) all += joined({" ~ (", value, " is ", test, ")"});
    seeds.expression(all);
    for (const char* const parity : {"odd", "even"})
      seeds.expression(joined({value, " is ", parity}));
  }
  for (const std::string& method : split(kMethods))
    seeds.expression(joined({"s.", method, " ~ w.", method, " ~ e.", method}));
  return seeds.take();
}

std::vector<std::string> jinja_words() {
  std::vector<std::string> out = split(kWords);
  out.emplace_back(1, '\0');
  return out;
}

}  // namespace cria::fuzz
