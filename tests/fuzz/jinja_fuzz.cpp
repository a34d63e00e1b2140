// Templates: a template, a NUL byte, and a JSON object of its variables.
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tests/fuzz/jinja_seeds.h"
#include "tests/fuzz/target.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/jinja/values/json.h"

namespace cria::fuzz {
namespace {

constexpr std::string_view kSnowman = "\xE2\x98\x83";

jinja::Dict variables_of(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  const jinja::Value value = jinja::from_json(json);
  require(jinja::repr(jinja::parse_json(text)).bytes() == jinja::repr(value).bytes(),
          "other values out of the text itself");
  jinja::Dict out;
  for (const auto& [key, item] : value.dict()->entries()) out.set(key, item);
  return out;
}

/// Runs are ordered, alternate and are not empty.
void check_runs(const jinja::Text& text) {
  std::size_t end = 0;
  for (const auto& run : text.runs()) {
    require(run.end > end && (end == 0 || text.trusted_at(end - 1) != run.trusted),
            "runs out of order");
    end = run.end;
  }
  require(end == text.size(), "wrong length of runs");
}

/// Text that only variables can contain is never trusted.
void check_authors(const jinja::Text& text) {
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    const auto part = std::string_view(text.bytes()).substr(begin, run.end - begin);
    require(!run.trusted || part.find(kSnowman) == std::string_view::npos,
            "untrusted text is trusted");
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
    const bool can_say = source.find(kSnowman) != std::string_view::npos ||
                         source.find('\\') != std::string_view::npos;
    if (!can_say) check_authors(text);
    require(parsed.render(variables_of(json), now, limits).bytes() == text.bytes(),
            "another text the second time");
  } catch (const jinja::Failure&) {  // JSON is nested too deeply
  }
}

}  // namespace

const Target kJinja{"jinja", run_jinja, jinja_seeds, nullptr, jinja_words};

}  // namespace cria::fuzz
