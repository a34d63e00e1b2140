// Templates rendered with some variables of every type. What the tests expect is what Jinja2 3.1
// prints with Hugging Face's settings (trim_blocks, lstrip_blocks, loop controls, immutable
// sandbox).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/error.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/jinja/values/json.h"

namespace cria::testing {

inline jinja::Dict jinja_variables() {
  const auto json = nlohmann::ordered_json::parse(
      R"json({"messages": [{"role": "user", "content": " Hi \"there\" ünï\n"}, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": ""}], "x": 5, "f": 2.5, "s": "Hello World", "u": "Straße ǆ ΑΣ", "l": [3, 1, 2], "d": {"b": 1, "a": [1, 2.0, null, true], "items": "I"}, "n": null, "e": [], "t": true, "names": ["bob", "Alice", "carol"], "nest": [{"k": {"v": 1}}, {"k": {"v": 3}}, {"k": {"v": 2}}], "ml": "a\n\nb\r\nc"})json");
  jinja::Dict out = *jinja::from_json(json).dict();
  out.set("bos_token", "<s>");
  out.set("eos_token", "</s>");
  out.set("add_generation_prompt", true);
  return out;
}

inline jinja::Text render(std::string_view source, const jinja::Limits& limits = {}) {
  std::tm now{};
  now.tm_year = 126;  // 20 November 2026
  now.tm_mon = 10;
  now.tm_mday = 20;
  return jinja::Template::parse(source, "test").render(jinja_variables(), now, limits);
}

inline std::string rendered(std::string_view source) { return render(source).bytes(); }
inline std::string value_of(const std::string& expression) {
  return rendered("{{ " + expression + " }}");
}

/// Returns the message of the Error, or "".
inline std::string error_of(std::string_view source, const jinja::Limits& limits = {}) {
  try {
    (void)render(source, limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace cria::testing
