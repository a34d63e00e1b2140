// libFuzzer entry: a template, a NUL byte, and a JSON object of its variables.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tokenizer/jinja/json.h"
#include "tokenizer/jinja/template.h"

namespace {

constexpr std::string_view kSnowman = "\xE2\x98\x83";

cria::jinja::Dict variables(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  const cria::jinja::Value value = cria::jinja::from_json(json);
  cria::jinja::Dict out;
  for (const auto& [key, item] : value.dict()->entries()) out.set(key, item);
  return out;
}

/// Runs are in order, not empty and alternate.
void check_runs(const cria::jinja::Text& text) {
  std::size_t end = 0;
  for (const auto& run : text.runs()) {
    if (run.end <= end || (end != 0 && text.trusted_at(end - 1) == run.trusted)) std::abort();
    end = run.end;
  }
  if (end != text.size()) std::abort();
}

/// What only the variables can have said is trusted nowhere.
void check_authors(const cria::jinja::Text& text) {
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    const auto part = std::string_view(text.bytes()).substr(begin, run.end - begin);
    if (run.trusted && part.find(kSnowman) != std::string_view::npos) std::abort();
    begin = run.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view source = input.substr(0, cut);
  const std::string_view json = input.substr(std::min(cut + 1, input.size()));
  cria::jinja::Limits limits;
  limits.steps = 100'000;
  limits.bytes = 4 << 20;
  std::tm now{};
  now.tm_mday = 1;
  try {
    const auto parsed = cria::jinja::Template::parse(source, "fuzz");
    const cria::jinja::Text text = parsed.render(variables(json), now, limits);
    check_runs(text);
    const bool can_say =
        source.find(kSnowman) != std::string_view::npos || source.find('\\') != std::string_view::npos;
    if (!can_say) check_authors(text);
    if (parsed.render(variables(json), now, limits).bytes() != text.bytes()) std::abort();
  } catch (const cria::Error&) {
  } catch (const cria::jinja::Failure&) {  // JSON that is nested too deeply
  }
  return 0;
}
