// The template language: a template, a NUL byte, and a JSON object of its variables.
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tests/fuzz/target.h"
#include "tokenizer/jinja/json.h"
#include "tokenizer/jinja/template.h"

namespace cria::fuzz {
namespace {

constexpr std::string_view kSnowman = "\xE2\x98\x83";

jinja::Dict variables_of(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  const jinja::Value value = jinja::from_json(json);
  jinja::Dict out;
  for (const auto& [key, item] : value.dict()->entries()) out.set(key, item);
  return out;
}

/// Runs are in order, not empty and alternate.
void check_runs(const jinja::Text& text) {
  std::size_t end = 0;
  for (const auto& run : text.runs()) {
    require(run.end > end && (end == 0 || text.trusted_at(end - 1) != run.trusted), "runs out of order");
    end = run.end;
  }
  require(end == text.size(), "runs of another length");
}

/// What only the variables can have said is trusted nowhere.
void check_authors(const jinja::Text& text) {
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    const auto part = std::string_view(text.bytes()).substr(begin, run.end - begin);
    require(!run.trusted || part.find(kSnowman) == std::string_view::npos, "a stranger's text is trusted");
    begin = run.end;
  }
}

void run_jinja(std::string_view input) {
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view source = input.substr(0, cut);
  const std::string_view json = input.substr(std::min(cut + 1, input.size()));
  jinja::Limits limits;
  limits.steps = 100'000;
  limits.bytes = 4 << 20;
  std::tm now{};
  now.tm_mday = 1;
  try {
    const auto parsed = jinja::Template::parse(source, "fuzz");
    const jinja::Text text = parsed.render(variables_of(json), now, limits);
    check_runs(text);
    const bool can_say =
        source.find(kSnowman) != std::string_view::npos || source.find('\\') != std::string_view::npos;
    if (!can_say) check_authors(text);
    require(parsed.render(variables_of(json), now, limits).bytes() == text.bytes(),
            "another text the second time");
  } catch (const jinja::Failure&) {  // JSON that is nested too deeply
  }
}

std::vector<std::string> jinja_seeds() {
  const std::string json =
      R"({"messages":[{"role":"user","content":"Hi ☃ "},{"role":"assistant","content":"Lo","tool_calls":[{"name":"f","arguments":{"a":[1,2.5,null,true]}}]}],"n":3,"s":"a b,c","l":[3,1,2,1],"d":{"k":"v","z":1},"add_generation_prompt":true})";
  const char* const sources[] = {
      "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m['content'] | trim }}{% if loop.last %}!{% else "
      "%}{{ loop.index0 }}{% endif %}{% endfor %}",
      "{%- set ns = namespace(found=false) -%}{%- for m in messages if m.role != 'system' recursive -%}{%- "
      "set ns.found = true -%}{%- endfor -%}{{ ns.found }}",
      "{% macro f(a, b=2, *, c=3) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}{% "
      "endmacro %}{{ f(1, c=4) }}{% call f(1) %}x{% endcall %}",
      "{{ d | tojson(indent=2) }}{{ l | sort | join(', ') }}{{ l | unique | list | length }}{{ d.items() | "
      "list }}{{ d | dictsort }}",
      "{{ s.split(' ')[0].upper().replace('A', 'b') }}{{ s[::-1] }}{{ s[1:] }}{{ 'x' * 3 }}{{ n // 2 ** 2 % "
      "5 - -1 }}{{ 7 / 2 }}{{ not n }}",
      "{{ '%s-%05.2f-%d' % (s, 1.5, n) }}{{ '{}'.format(s) }}{{ 'a' ~ n ~ none }}{{ l is iterable and s is "
      "string and x is not defined }}",
      "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | first }}{{ l "
      "| groupby(0) if false }}{{ l|reject('odd')|sum }}",
      "{% filter upper %}a{{ s }}{% endfilter %}{% set x %}b{% endset %}{{ x }}{# comment #}{% raw %}{{ }}{% "
      "endraw %}{{ strftime_now('%d %b %Y') }}",
      "{% generation %}a{% endgeneration %}{% for a, b in d.items() %}{% break %}{% continue %}{% else %}e{% "
      "endfor %}{{ raise_exception('no') }}",
      "{{ [1, 'a', [2]] + [(3, 4)] }}{{ {'a': 1, 'b': {'c': 2}} }}{{ range(1, 10, 3) | list }}{{ l | "
      "batch(2) | list }}{{ l | slice(2) | list }}",
      "{{ 1 if n > 2 else 0 }}{{ n in l }}{{ 'a' not in s }}{{ 1 < 2 <= 2 }}{{ (1, 2) }}{{ s | default('x', "
      "true) | replace('a', 'b') | title | capitalize }}",
      "{{ '\\u2603\\x41\\n\\t' }}{{ s | indent(2, true) | wordcount }}{{ d.get('q', 1) }}{{ "
      "s.startswith('a') }}{{ s.find('b') }}{{ l | max }}{{ 3.7 | round | int }}{{ '12' | int + 1 }}",
      "{{ messages[0].content.strip().lstrip('H').rstrip().splitlines() }}{{ lipsum is defined }}{{ "
      "cycler('a','b').next() }}{{ joiner(',')() }}{{ dict(a=1) }}"};
  // What follows a refusal is never reached, so every expression is a seed of its own, too.
  const char* const alone[] = {
      "{% macro f(a, b=2) %}{{ a }}{{ b }}{{ caller is defined }}{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}",
      "{% macro g() %}[{{ caller() }}]{% endmacro %}{% call g() %}x{% endcall %}",
      "{% for x in l %}{{ loop.index }}{{ loop.revindex }}{{ loop.first }}{{ loop.length }}{{ loop.previtem "
      "}}{% endfor %}",
      "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.nextitem }}{{ loop.depth }}{% "
      "endfor %}",
      "{% for x in l if x > 1 %}{% if x == 2 %}{% break %}{% endif %}{% continue %}{% else %}e{% endfor %}",
      "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif "
      "%}{% endfor %}",
      "{{ n is number }}{{ n is integer }}{{ s is string }}{{ d is mapping }}{{ l is sequence }}{{ q is "
      "undefined }}",
      "{{ n is odd }}{{ n is divisibleby 3 }}{{ n is eq 3 }}{{ n is in l }}{{ none is none }}{{ true is true "
      "}}",
      "{{ s is lower }}{{ s is upper }}{{ n is float }}{{ n is sameas 3 }}{{ d is callable }}{{ true is "
      "boolean }}"};
  std::vector<std::string> out;
  const auto add = [&](std::string_view source) {
    out.push_back(std::string(source) + std::string(1, '\0') + json);
  };
  for (const char* source : alone) add(source);
  for (const std::string_view source : sources) {
    add(source);
    for (std::size_t at = source.find("{{"); at != std::string_view::npos; at = source.find("{{", at + 2))
      add(source.substr(at, source.find("}}", at) + 2 - at));
  }
  for (const char* filter : {"abs",        "attr('a')", "capitalize", "center(9)", "count",
                             "default(1)", "escape",    "first",      "float",     "indent",
                             "int",        "items",     "join('-')",  "last",      "length",
                             "list",       "lower",     "max",        "min",       "replace('a', 'b')",
                             "reverse",    "round",     "safe",       "sort",      "string",
                             "sum",        "title",     "tojson",     "trim",      "truncate(3)",
                             "unique",     "upper",     "wordcount"})
    for (const char* value : {"s", "l", "d", "n"}) add("{{ " + std::string(value) + " | " + filter + " }}");
  for (const char* method :
       {"capitalize()",      "count('a')", "endswith('c')",    "find('b')",         "isalnum()",
        "isalpha()",         "isdigit()",  "islower()",        "isspace()",         "isupper()",
        "lower()",           "lstrip()",   "partition(' ')",   "removeprefix('a')", "removesuffix('c')",
        "replace('a', 'b')", "rfind('a')", "rpartition(' ')",  "rsplit(' ', 1)",    "rstrip()",
        "split()",           "split(',')", "splitlines()",     "startswith('a')",   "strip()",
        "swapcase()",        "title()",    "upper()",          "zfill(9)",          "center(9)",
        "ljust(9)",          "rjust(9)",   "join(['x', 'y'])", "index('a')",        "format(1)",
        "encode()"})
    add("{{ s." + std::string(method) + " }}");
  for (const char* method : {"get('k')", "items()", "keys()", "values()"})
    add("{{ d." + std::string(method) + " }}");
  return out;
}

std::vector<std::string> jinja_words() {
  std::vector<std::string> out;
  for (const char* word : {"{{",
                           "}}",
                           "{%",
                           "%}",
                           "{%-",
                           "-%}",
                           "{#",
                           "#}",
                           "for",
                           "in",
                           "if",
                           "elif",
                           "else",
                           "endif",
                           "endfor",
                           "set",
                           "endset",
                           "macro",
                           "endmacro",
                           "call",
                           "endcall",
                           "filter",
                           "endfilter",
                           "raw",
                           "endraw",
                           "break",
                           "continue",
                           "recursive",
                           "loop",
                           "loop.index",
                           "loop.last",
                           "loop.previtem",
                           "loop.cycle('a')",
                           "loop.changed(1)",
                           "namespace",
                           "is",
                           "not",
                           "and",
                           "or",
                           "defined",
                           "undefined",
                           "none",
                           "true",
                           "false",
                           "string",
                           "mapping",
                           "iterable",
                           "sequence",
                           "number",
                           "boolean",
                           "divisibleby",
                           "sameas",
                           "callable",
                           "eq",
                           "ne",
                           "lt",
                           "gt",
                           "**",
                           "//",
                           "~",
                           "|",
                           "abs",
                           "attr",
                           "batch",
                           "capitalize",
                           "center",
                           "count",
                           "default",
                           "d",
                           "dictsort",
                           "escape",
                           "first",
                           "float",
                           "forceescape",
                           "format",
                           "from_json",
                           "groupby",
                           "indent",
                           "int",
                           "items",
                           "join",
                           "last",
                           "length",
                           "list",
                           "lower",
                           "map",
                           "max",
                           "min",
                           "pprint",
                           "random",
                           "reject",
                           "rejectattr",
                           "replace",
                           "reverse",
                           "round",
                           "safe",
                           "select",
                           "selectattr",
                           "slice",
                           "sort",
                           "string",
                           "striptags",
                           "sum",
                           "title",
                           "tojson",
                           "trim",
                           "truncate",
                           "unique",
                           "upper",
                           "urlencode",
                           "wordcount",
                           "wordwrap",
                           "xmlattr",
                           ".append(",
                           ".count(",
                           ".endswith(",
                           ".find(",
                           ".format(",
                           ".get(",
                           ".index(",
                           ".isdigit()",
                           ".items()",
                           ".join(",
                           ".keys()",
                           ".lower()",
                           ".lstrip(",
                           ".partition(",
                           ".pop(",
                           ".removeprefix(",
                           ".replace(",
                           ".rfind(",
                           ".rsplit(",
                           ".rstrip(",
                           ".split(",
                           ".splitlines()",
                           ".startswith(",
                           ".strip(",
                           ".title()",
                           ".upper()",
                           ".values()",
                           ".zfill(",
                           "attribute=",
                           "range(",
                           "dict(",
                           "raise_exception(",
                           "strftime_now(",
                           "messages",
                           "content",
                           "role",
                           "ns.x",
                           "[-1]",
                           "[::2]",
                           "[1:]",
                           "%s",
                           "%r",
                           "%05.2f",
                           "1e308",
                           "9223372036854775807",
                           "\0"})
    out.emplace_back(word);
  return out;
}

}  // namespace

const Target kJinja{"jinja", run_jinja, jinja_seeds, nullptr, jinja_words};

}  // namespace cria::fuzz
