#include <gtest/gtest.h>

#include "engine/constrain/constraint.h"

namespace cria {
namespace {

struct SchemaCase {
  const char* schema;
  std::vector<const char*> good, bad;
};

TEST(Schema, TakesWhatSatisfiesIt) {
  const SchemaCase cases[] = {
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "1", "tru"}},
      {R"({"type":["integer","null"],"minimum":1,"maximum":15})",
       {"1", "9", "15", "null"},
       {"0", "16", "-1", "1.5"}},
      {R"({"type":"integer","minimum":-5,"maximum":17})",
       {"-5", "-1", "0", "17"},
       {"-6", "18", "-0", "007"}},
      {R"({"type":"integer","exclusiveMinimum":0.5,"exclusiveMaximum":3})",
       {"1", "2"},
       {"0", "3", "1.0"}},
      {R"({"type":"integer","maximum":-10})", {"-10", "-100"}, {"-9", "0", "5", "-1"}},
      {R"({"type":"number","minimum":0.25,"exclusiveMaximum":1.5})",
       {"0.25", "0.3", "1", "1.0", "1.4999", "0.250"},
       {"0.2499", "0.2", "0", "1.5", "1.50", "2", "-1", "0.2", "1e0"}},
      {R"({"type":"number","exclusiveMinimum":-1.5,"maximum":-0.5})",
       {"-0.5", "-1", "-1.49", "-0.50"},
       {"-1.5", "-0.4", "0", "-2"}},
      {R"({"type":"integer","multipleOf":7,"minimum":-14,"maximum":100})",
       {"0", "7", "-7", "-14", "98"},
       {"1", "6", "-21", "105", "10", "-0"}},
      {R"({"type":"number","multipleOf":0.25,"exclusiveMinimum":0})",
       {"0.25", "3", "12.5", "12.75", "12.50"},
       {"0", "0.1", "0.3", "12.750", "1.125", "-0.25"}},
      {R"({"allOf":[{"multipleOf":4},{"multipleOf":0.6}],"type":"number"})",
       {"0", "12", "-24", "12.0"},
       {"4", "6", "0.6", "1.2"}},
      {R"({"type":"string","nullable":true,"x-order":{"a":1},"$anchor":"here","externalDocs":{}})",
       {"\"a\"", "null"},
       {"1"}},
      {R"({"type":"string","nullable":false})", {"\"\""}, {"null"}},
      {R"({"type":"object","minProperties":1,"additionalProperties":{"type":"null"}})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}", R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,
        "minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":2})", R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","required":["a"],"properties":{"a":{"const":1}},"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"x":2})"},
       {R"({"x":2})", R"({"a":1,"x":2,"y":3})"}},
      {R"({"type":"array","items":{"enum":["a","b",3]},"uniqueItems":true,"minItems":1,"maxItems":2})",
       {R"(["a"])", R"(["b","a"])", "[3, \"a\"]"},
       {"[]", R"(["a","a"])", R"(["a","b",3])"}},
      {R"({"enum":[[1,1],[1,2]],"uniqueItems":true})", {"[1,2]"}, {"[1,1]"}},
      {R"({"type":"string","pattern":"^(?=.*[0-9])(?!.*z)[a-z0-9]{2,4}$"})",
       {"\"a1\"", "\"7abc\""},
       {"\"ab\"", "\"z1\"", "\"1\"", "\"1abcd\""}},
      {R"({"type":"number"})",
       {"0", "-0.5", "1e5", "1.5E-20", "2e289"},
       {"2e290", "01", ".5", "1e1000", "+1"}},
      {R"({"enum":["red","green",1,null,{"a":[1]}]})",
       {"\"red\"", "1", "null", R"({"a": [1]})", R"({"a":[ 1]})"},
       {"\"blue\"", "2", R"({"a":[2]})"}},
      {R"({"enum":["a","bb",3],"type":"string","maxLength":1})", {"\"a\""}, {"\"bb\"", "3"}},
      {R"({"enum":[18446744073709551615,-9223372036854775808]})",
       {"18446744073709551615", "-9223372036854775808"},
       {"18446744073709551614", "1.8446744073709552e19"}},
      {R"({"type":"integer","minimum":9999999999999999,"maximum":18446744073709551616})",
       {"9999999999999999"},
       {"9999999999999998", "10000000000000000"}},
      {R"({"enum":[18446744073709551615,7],"minimum":10000000000000000})",
       {"18446744073709551615"},
       {"7"}},
      {R"({"const":"\\ \" / 😀\n"})", {R"("\\ \" / 😀\n")"}, {"\"\""}},
      {R"({"type":"array","items":[{"type":"integer"},{"type":"null"}],"minItems":2,"maxItems":2})",
       {"[1,null]"},
       {"[1]", "[1,1]", "[1,null,1]"}},
      {R"({"type":"array","items":[{"type":"integer"}]})", {"[]", "[1]", "[1, \"x\"]"}, {"[null]"}},
      {R"({"type":"array","additionalItems":{"const":2},"items":[{"const":1}]})",
       {"[]", "[1]", "[1,2,2]"},
       {"[2]", "[1,1]"}},
      {R"({"type":"integer","exclusiveMinimum":true,"minimum":0,"maximum":3,"exclusiveMaximum":false})",
       {"1", "3"},
       {"0", "4"}},
      {R"({"discriminator":{"propertyName":"kind","mapping":{"a":"#/$defs/A"}},"oneOf":[{"$ref":"#/$defs/A"},
        {"type":"null"}],"$defs":{"A":{"type":"object","properties":{"kind":{"const":"a"}},"required":["kind"],
        "additionalProperties":false}}})",
       {R"({"kind":"a"})", "null"},
       {R"({"kind":"b"})"}},
      {R"({"type":"string","contentEncoding":"base64","contentMediaType":"image/png","example":"aa"})",
       {"\"aa\""},
       {"1"}},
      {R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"a":true,"b":false})"},
       {R"({"a":1})"}},
      {R"({"type":"object","propertyNames":{"enum":["a","é\"",5]},"additionalProperties":{"const":1}})",
       {"{}", R"({"a":1})", R"({"é\"":1, "a":1})"},
       {R"({"b":1})", R"({"5":1})", R"({"a":2})"}},
      {R"({"type":"object","properties":{"a":{"const":1},"abc":{"const":2}},"required":["bb"],
        "propertyNames":{"pattern":"^[ab]*$","minLength":2}})",
       {R"({"bb":5,"ab":6})", R"({"bb":5})"},
       {R"({"a":1,"bb":5})", R"({"abc":2,"bb":5})", R"({"bb":5,"c":1})", R"({"bb":5,"b":1})"}},
      {R"({"type":"object","propertyNames":{"anyOf":[{"const":"x"},{"maxLength":1,"pattern":"[yz]"}]},
        "allOf":[{"propertyNames":{"pattern":"[^z]"}}]})",
       {R"({"x":null,"y":1})"},
       {R"({"z":1})", R"({"xy":1})"}},
      {R"({"enum":[{"a":1},{"b":1}],"propertyNames":{"const":"a"}})",
       {R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"äöü\"", R"("\n\u00e9")", R"("\ud83d\ude00x")", "\"😀😀\""},
       {"\"a\"", "\"abcd\"", "\"\""}},
      {R"({"type":"string","minLength":2})", {"\"ab\"", "\"abcdefghi\""}, {"\"a\"", "\"\""}},
      {R"({"type":"string","pattern":"^[A-Z]{2}-[0-9]{3}$"})",
       {"\"AB-123\"", R"("\u0041B-123")"},
       {"\"AB-12\"", "\"xAB-123\"", "\"AB-1234\""}},
      {R"({"type":"string","pattern":"b+","maxLength":3})",
       {"\"b\"", "\"abb\"", "\"bcc\""},
       {"\"a\"", "\"aaab\"", "\"\""}},
      {R"({"type":"string","pattern":"^a|b$"})", {"\"ax\"", "\"xb\""}, {"\"xa\"", "\"bx\""}},
      {R"({"type":"string","pattern":"\\bcat\\b"})",
       {"\"cat\"", "\"a cat!\""},
       {"\"cats\"", "\"concat\""}},
      {R"({"type":"string","pattern":"^\\p\\d$"})", {}, {}},
      {R"({"type":"string","pattern":"^\\p{Lu}[\\p{L}\\p{M} .'-]{0,254}$","maxLength":9})",
       {"\"Élise\"", "\"Ж. Я\"", R"("\u00c4\u00e4")", R"("\ud835\uDD18\uD835\udd2b")"},
       {"\"élise\"", "\"A1\"", "\"Ängströmlich\"", R"("\u00c4\u0031")", R"("\ud83d\ude00")"}},
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2024-01-01T10:00:00Z\"", "\"2024-02-29T23:59:59.123+02:00\""},
       {"\"2024-01-01\"", "\"2024-01-01T24:00:00Z\""}},
      {R"({"type":"string","format":"time"})", {"\"10:00:00Z\""}, {"\"10:00:00\""}},
      {R"({"type":"string","format":"uuid"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567\""}},
      {R"({"type":"string","format":"ipv4"})",
       {"\"127.0.0.1\"", "\"255.255.255.255\""},
       {"\"256.1.1.1\"", "\"1.1.1\"", "\"01.1.1.1\""}},
      {R"({"type":"object","patternProperties":{"^[a-z]+$":{"type":"integer"},"b":{"minimum":3}},
        "properties":{"ab":{"maximum":9},"N":{"type":"null"}},"additionalProperties":false})",
       {"{}", R"({"a":1})", R"({"b":3,"a":1})", R"({"ab":5})", R"({"N":null})", R"({"Xb":3.5})",
        R"({"ab":5,"N":null,"c":7})"},
       {R"({"a":"x"})", R"({"b":2})", R"({"ab":10})", R"({"ab":2})", R"({"A":1})", R"({"N":1})",
        R"({"Xb":2})"}},
      {R"({"type":"object","patternProperties":{"^x":{"type":"integer"}},"required":["xy","z"],
        "additionalProperties":{"type":"null"}})",
       {R"({"xy":1,"z":null})", R"({"xy":1,"z":null,"x":2,"q":null})"},
       {R"({"xy":1})", R"({"xy":null,"z":null})", R"({"xy":1,"z":1})",
        R"({"xy":1,"z":null,"q":1})"}},
      {R"({"type":"object","allOf":[{"patternProperties":{"^a":{"type":"integer"}}},
        {"patternProperties":{"z$":{"minimum":5}},"additionalProperties":{"maximum":9}}]})",
       {R"({"az":5})", R"({"ab":9})", R"({"yz":5.5})", R"({"q":-1})", R"({"az":50})"},
       {R"({"az":4})", R"({"az":5.5})", R"({"ab":10})", R"({"q":10})", R"({"yz":4})"}},
      {R"({"type":"object","patternProperties":{"^.*$":{"type":"integer"}}})",
       {"{}", R"({"a":1,"b c":2})"},
       {R"({"a":"1"})"}},
      {R"({"type":"object","patternProperties":{"^s_":false}})",
       {R"({"a":1})", R"({"s":1})"},
       {R"({"s_":1})", R"({"s_a":1})"}},
      {R"({"anyOf":[{"not":{}},{"type":"string"}]})", {"\"a\""}, {"1", "null"}},
      {R"({"not":false,"type":"null"})", {"null"}, {"1"}},
      {R"({"$id":"T0","type":"array","items":{"$ref":"T0"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"$defs":{"n":{"$id":"https://x.org/n","type":"object","properties":{
        "next":{"$ref":"https://x.org/n"},"v":{"$ref":"https://x.org/n#v"}},
        "additionalProperties":false,"$defs":{"v":{"$anchor":"v","type":"integer"}}}},
        "$ref":"https://x.org/n"})",
       {"{}", R"({"next":{"v":1}})"},
       {R"({"next":1})", R"({"v":"x"})"}},
      {R"({"items":{"$ref":"#v"},"type":"array","$defs":{"v":{"$anchor":"v","type":"null"}}})",
       {"[]", "[null]"},
       {"[1]"}},
      {R"({"type":"string","format":"ipv6"})",
       {"\"::\"", "\"::1\"", "\"2001:db8::ff00:42:8329\"", "\"1:2:3:4:5:6:7:8\"", "\"1::\""},
       {"\"1::2::3\"", "\"1:2:3:4:5:6:7\"", "\"1:2:3:4:5:6:7::8\"", "\"12345::\"", "\":1\""}},
      {R"({"type":"string","format":"hostname"})",
       {"\"a\"", "\"www.example-site.org\""},
       {"\"\"", "\"-a\"", "\"a-\"", "\"a..b\"", "\"a b\"", "\"a.\""}},
      {R"({"type":"string","format":"email"})",
       {"\"ada@example.org\"", "\"a.b.c+d@x\""},
       {"\"ada\"", "\"@x\"", "\"a@\"", "\".a@x\"", "\"a.@x\"", "\"a..b@x\"", "\"a b@x\""}},
      {R"({"type":"string","format":"duration"})",
       {"\"P4DT12H30M5S\"", "\"P2W\"", "\"PT0S\"", "\"P1Y\""},
       {"\"P\"", "\"PT\"", "\"P1YT\"", "\"P2S\"", "\"P1Y2D\"", "\"P1D2H\"", "\"4D\""}},
      {R"({"type":"string","format":"poem"})", {"\"x\""}, {"1"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2})",
       {"[1]", "[1, 2]", "[ 1,2 ]"},
       {"[]", "[1,2,3]", "[true]", "[1,]"}},
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[ ]", "[1]", "[1,2, 3]"},
       {"[1,]", "[,]", "[1,2,]"}},
      {R"({"type":["null","array"],"items":{"$ref":"#"}})",
       {"[]", "[[],null]"},
       {"[[],]", "[null,]"}},
      {R"({"type":"array","items":{"type":"integer"},"maxItems":2})",
       {"[]", "[1,2]"},
       {"[1,]", "[1,2,]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"}})",
       {"[]", "[null,1]"},
       {"[null,]", "[null,1,]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2})",
       {"[1,2]", "[1,2,3,4]"},
       {"[1]", "[]"}},
      {R"({"type":"array","prefixItems":[{"type":"boolean"},{"enum":["x"]}],"items":false,"minItems":1})",
       {"[true]", "[true,\"x\"]"},
       {"[]", "[true,\"x\",1]", "[\"x\"]"}},
      {R"({"type":"array","prefixItems":[{"type":"boolean"}]})",
       {"[]", "[true]", "[true,1,{}]"},
       {"[1]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{"type":"null"}},"required":["b"],"additionalProperties":false})",
       {R"({"b":true})", R"({"a":1,"b":true})", R"({"a": 1, "b": true, "c": null})",
        R"({"b":true,"c":null})"},
       {"{}", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,"d":1})", R"({"b":true,})",
        R"({,"b":true})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"a":1})", R"({"a":1,"x":true})", R"({"x":true,"y":false})", R"({"ab":true})",
        R"({"":true})"},
       {R"({"a":true})", R"({"a":1,"a":true})", R"({"x":1})", R"({"x":true,"\u0061":true})"}},
      {R"({"properties":{"a":false},"type":"object"})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"type":"object","required":["z"]})",
       {R"({"z":1})", R"({"z":[],"y":2})"},
       {"{}", R"({"y":2})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/t"}]}},"required":["v","next"],"additionalProperties":false}}})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"$ref":"#/definitions/List%3Ca~1b%3E","definitions":{"List<a/b>":{"type":"integer"}}})",
       {"7"},
       {"null"}},
      {R"({"$ref":"#/definitions/a%2","definitions":{"a%2":{"type":"integer"}}})", {"7"}, {"null"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":{"type":"boolean"}}}]})",
       {R"({"a":3})", R"({"a":5,"b":true,"c":1})"},
       {R"({"a":2})", R"({"b":true})", R"({"a":3,"b":1})"}},
      {R"({"anyOf":[{"type":"string"},{"type":"integer"}],"maxLength":2,"maximum":5})",
       {"\"ab\"", "5"},
       {"\"abc\"", "6", "null"}},
      {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {"\"a\"", "1"}, {"null"}},
      {R"({"allOf":[{"enum":[{"a":1,"b":[{"c":2,"d":3}]},1]},{"const":{"b":[{"d":3,"c":2}],"a":1.0}}]})",
       {R"({"a":1,"b":[{"c":2,"d":3}]})"},
       {"1", R"({"a":1})"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":"a"})", R"({"k":"b"})"},
       {R"({"k":"c"})", "{}"}},
      {"true", {"1", "{}", "\"a\""}, {"", "x"}},
      {R"({"title":"any","x":1})", {}, {}},
      {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "{}"}},
  };
  for (const SchemaCase& one : cases) {
    if (one.good.empty()) {
      EXPECT_THROW(Constraint::json_schema(one.schema), ConstraintError) << one.schema;
      continue;
    }
    std::shared_ptr<const Constraint> constraint;
    try {
      constraint = Constraint::json_schema(one.schema);
    } catch (const Error& error) {
      ADD_FAILURE() << one.schema << ": " << error.what();
      continue;
    }
    for (const char* const text : one.good) {
      EXPECT_TRUE(constraint->accepts(text)) << one.schema << " takes " << text;
      for (std::size_t n = 0; n <= std::string(text).size(); ++n)
        EXPECT_TRUE(constraint->begins(std::string(text).substr(0, n)));
    }
    for (const char* const text : one.bad)
      EXPECT_FALSE(constraint->accepts(text)) << one.schema << " does not take " << text;
  }
}

TEST(Schema, TakesManyDiscriminatedAlternatives) {
  std::string schema = R"({"oneOf":[)";
  for (int i = 0; i < 100; ++i) {
    const std::string kind = std::to_string(i);
    schema += std::string(i > 0 ? "," : "") +
              R"({"type":"object","properties":{"kind":{"const":"k)" + kind +
              R"("},"a":{"type":"string"},"b":{"type":"array","items":{"type":"integer"}}},)" +
              R"("required":["kind","a"]})";
  }
  const auto constraint = Constraint::json_schema(schema + "]}");
  EXPECT_TRUE(constraint->accepts(R"({"kind":"k7","a":"x","b":[1]})"));
  EXPECT_FALSE(constraint->accepts(R"({"kind":"k100","a":"x"})"));
}

TEST(Schema, IsRefusedWithThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"hiccup"})", "/type"},
      {R"({"type":5})", "/type"},
      {"7", "/"},
      {"false", "/"},
      {R"({"properties":{"a":{"not":{"required":["b"]}}}})", "/properties/a/not"},
      {R"({"not":{"type":"null"}})", "/not"},
      {R"({"$ref":"other.json"})", "/$ref"},
      {R"({"$ref":"#there"})", "/$ref"},
      {R"({"properties":{"a":{"$id":"b","items":{"$ref":"#/$defs/c"}}},"$defs":{"c":{}}})",
       "/properties/a/items/$ref"},
      {R"({"properties":{"a/b~":{"minLength":-1}}})", "/properties/a~1b~0/minLength"},
      {R"({"$ref":"#/$defs/none"})", "/$ref"},
      {R"({"$ref":"https://example.org/s.json"})", "/$ref"},
      {R"({"$ref":"#"})", "/"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "/"},
      {R"({"type":"string","pattern":"([a-z"})", "/pattern"},
      {R"({"type":"string","pattern":"^(?=a)b"})", "/"},
      {R"({"type":"string","pattern":"a(?=b)c"})", "/pattern"},
      {R"({"type":"string","pattern":"^(?=a)b|c"})", "/pattern"},
      {R"({"type":"string","pattern":"(?<!a)b"})", "/pattern"},
      {R"({"type":"number","multipleOf":0})", "/multipleOf"},
      {R"({"type":"number","multipleOf":1234567})", "/multipleOf"},
      {R"({"type":"object","minProperties":2})", "/"},
      {R"({"type":"string","pattern":"^(a)\\1$"})", "/pattern"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "/"},
      {R"({"type":"object","properties":{"n":{"type":"integer","minimum":5,"maximum":4}}})",
       "/properties/n"},
      {R"({"enum":[]})", "/enum"},
      {R"({"enum":["a"],"type":"integer"})", "/"},
      {R"({"type":"string","minLength":4,"maxLength":3})", "/"},
      {R"({"type":"string","pattern":"^a{5}$","maxLength":3})", "/"},
      {R"({"uniqueItems":true})", "/"},
      {R"({"uniqueItems":1})", "/uniqueItems"},
      {R"({"exclusiveMinimum":true})", "/exclusiveMinimum"},
      {R"({"items":[{}],"prefixItems":[{}]})", "/items"},
      {R"({"items":{},"additionalItems":false})", "/additionalItems"},
      {R"({"discriminator":{"propertyName":"kind"}})", "/discriminator"},
      {R"({"type":"object","required":["ab"],"propertyNames":{"maxLength":1}})", "/"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})", "/"},
      {R"({"properties":["a"]})", "/properties"},
      {R"({"oneOf":[{"type":"string"},{"maxLength":3}]})", "/oneOf"},
      {R"({"oneOf":[{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}]})", "/oneOf"},
      {R"({"properties":{"a":{"items":{"oneOf":[{"const":1},{"type":"integer"}]}}}})",
       "/properties/a/items/oneOf"},
      {R"({"type":"integer","minimum":1.2,"maximum":1.8})", "/"},
      // A double cannot represent numbers of that size exactly.
      {R"({"const":18446744073709551616})", "/const"},
      {R"({"properties":{"a":{"enum":[1,{"b":[-9223372036854775809]}]}}})", "/properties/a/enum"},
      {R"({"properties":{"a":{"type":["integer","null"],"minimum":12345678901234567890123}}})",
       "/properties/a"},
      {R"({"type":"number","maximum":-10000000000000000})", "/"},
  };
  for (const auto& [schema, place] : cases) {
    try {
      Constraint::json_schema(schema);
      ADD_FAILURE() << schema << " is taken";
    } catch (const ConstraintError& error) {
      EXPECT_EQ(error.place, place) << schema << ": " << error.what();
    }
  }
}

// Whatever is nested or repeated how often: refused, or compiled, in bounded work.
TEST(Schema, RejectsExpensiveSchemas) {
  std::string nested = "{}", wide = R"({"type":"object","properties":{)", product = R"({"allOf":[)";
  for (int i = 0; i < 60; ++i) nested = R"({"anyOf":[)" + nested + "]}";
  for (int i = 0; i < 20; ++i)
    product += std::string(i > 0 ? "," : "") + R"({"anyOf":[{"minLength":)" + std::to_string(i) +
               R"(},{"maxLength":9}]})";
  EXPECT_NO_THROW(Constraint::json_schema(nested));
  std::string values = "0";
  for (int i = 1; i < 16000; ++i) values += "," + std::to_string(i);
  EXPECT_NO_THROW(Constraint::json_schema(R"({"enum":[)" + values + "]}"));
  const std::string too_much[] = {
      R"({"allOf":[{"enum":[)" + values + R"(]},{"enum":[)" + values + "]}]}",
      R"({"type":"string","minLength":1000000000})",
      R"({"type":"string","pattern":"^(((a{1,1000}){1,1000}){1,1000})$"})",
      R"({"type":"string","pattern":"(a|b)*a(a|b){30}"})",
      R"({"type":"array","minItems":100000000})",
      product + "]}",
      "[" + std::string(300 << 10, ' ') + "]",
  };
  for (const std::string& schema : too_much)
    EXPECT_THROW(Constraint::json_schema(schema), ConstraintError) << schema.substr(0, 80);
}

// Definitions that refer to the next one, each with several alternatives: the schema's text is
// nested only a few levels deep.
std::string chain_of_references(int definitions, int alternatives) {
  std::string out = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < definitions; ++i) {
    std::string one = R"({"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"}";
    for (int n = 0; n < alternatives; ++n) one = R"({"anyOf":[)" + one + "]}";
    out += "\"" + std::to_string(i) + "\":" + one + ",";
  }
  return out + "\"" + std::to_string(definitions) + R"(":{"type":"object"}}})";
}

TEST(Schema, RejectsDeeplyNestedReferences) {
  EXPECT_TRUE(Constraint::json_schema(chain_of_references(30, 3))->accepts("{}"));
  for (const auto& [definitions, alternatives] : {std::pair{200, 55}, {8000, 0}}) {
    const std::string schema = chain_of_references(definitions, alternatives);
    try {
      Constraint::json_schema(schema);
      ADD_FAILURE() << "is taken";
    } catch (const ConstraintError& error) {
      EXPECT_NE(std::string(error.what()).find("nested too deeply"), std::string::npos)
          << error.what();
      EXPECT_FALSE(error.malformed);
    }
  }
}

}  // namespace
}  // namespace cria
