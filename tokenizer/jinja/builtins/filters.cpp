// Filters of one value.
#include "tokenizer/jinja/builtins/builtins.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "model/file/utf8.h"
#include "tokenizer/jinja/values/json.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {
namespace {

template <std::string (*change)(std::string_view)>
Value case_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("a case filter", arguments, {});
  const Text text = context.text(input);
  context.budget.step(text.size() / 8);
  return context.made(map_runs(text, change));
}

Value capitalize_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("capitalize", arguments, {});
  const Text text = context.text(input);
  context.budget.step(text.size() / 8);
  return context.made(capitalize(text));
}

// Jinja's own idea of words: they begin after white space, "-", and opening brackets.
Value title_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("title", arguments, {});
  const Text text = context.text(input);
  context.budget.step(text.size());
  const std::string_view bytes = text.bytes();
  Text out;
  bool in_word = false;
  each_char(bytes, [&](const Utf8Char& c, std::size_t at) {
    const std::string_view one = bytes.substr(at, c.bytes);
    const bool between =
        (c.valid && is_space(c.code_point)) || one.find_first_of("-({[<") != std::string_view::npos;
    out.append(between ? std::string(one) : in_word ? lower(one) : upper(one), text.trusted_at(at));
    in_word = !between;
  });
  return context.made(std::move(out));
}

Value trim_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("trim", arguments, {"chars"});
  const auto characters = args.optional_text(0);
  context.budget.step(characters ? characters->size() : 0);
  return context.made(strip(context.text(input), characters, Side::Both));
}

Value replace_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("replace", arguments, {"old", "new", "count"}, 2);
  const Text text = context.text(input), old = context.text(args[0]), with = context.text(args[1]);
  const std::int64_t most = args.has(2) && !args[2].is_none() ? args.integer(2, -1) : -1;
  context.budget.step(text.size() / 8);
  context.budget.take(text.size() +
                      (text.size() / std::max<std::size_t>(old.size(), 1) + 1) * with.size());
  return replace(text, old.bytes(), with, most);
}

Value string_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("string", arguments, {});
  return context.text(input);
}

Value center_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("center", arguments, {"width"});
  const std::size_t width = args.size(0, 80);
  context.budget.take(width);
  context.budget.take(width * 4);
  return context.made(pad(context.text(input), width, Text(" ", true), Side::Both));
}

Value escape_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("escape", arguments, {});
  Text out = context.escaped(context.text(input));
  out.set_markup(true);
  return out;
}

Value safe_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("safe", arguments, {});
  Text out = context.text(input);
  out.set_markup(true);
  return out;
}

Value indent_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("indent", arguments, {"width", "first", "blank"});
  Text margin;
  if (args.has(0) && args[0].text() != nullptr) {
    margin = *args[0].text();
  } else {
    const std::size_t width = args.size(0, 4);
    context.budget.take(width);
    margin = Text(std::string(width, ' '), true);
  }
  require_defined(input);
  if (input.text() == nullptr) throw Failure("indent: expected str, got " + input.type_name());
  Text text = *input.text();
  context.budget.take(text.size());
  text.append("\n", true);
  const std::vector<Text> lines = split_lines(text, false);
  context.budget.take_values(lines.size());
  context.budget.take(text.size());
  Text out;
  if (args.truth(1, false)) out.append(margin);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) {
      out.append("\n", true);
      context.budget.take(margin.size());
      if (args.truth(2, false) || !lines[i].empty()) out.append(margin);
    }
    out.append(lines[i]);
  }
  return out;
}

Value truncate_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("truncate", arguments, {"length", "killwords", "end", "leeway"});
  if (input.text() == nullptr && !input.is_undefined())
    throw Failure("truncate: expected str, got " + input.type_name());
  const Text text = context.text(input), end = args.text(2, "...");
  const std::int64_t wanted = args.integer(0, 255),
                     leeway = args.has(3) && args[3].is_none() ? 5 : args.integer(3, 5);
  const auto tail = static_cast<std::int64_t>(length(end.bytes()));
  if (wanted < tail)
    throw Failure("truncate(): expected a length of at least " + std::to_string(tail));
  if (leeway < 0) throw Failure("truncate(): expected a leeway of at least 0");
  if (static_cast<std::int64_t>(length(text.bytes())) <=
      wanted + std::min<std::int64_t>(leeway, 1 << 30))
    return text;
  Text out = text.part(0, offset_of(text.bytes(), static_cast<std::size_t>(wanted - tail)));
  if (!args.truth(1, false)) {
    const std::size_t space = out.bytes().rfind(' ');
    if (space != std::string::npos) out = out.part(0, space);
  }
  out.append(end);
  return context.made(std::move(out));
}

Value wordcount_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("wordcount", arguments, {});
  const Text text = context.text(input);
  context.budget.step(text.size() / 4);
  std::int64_t n = 0;
  bool in_word = false;
  each_char(text.bytes(), [&](const Utf8Char& c, std::size_t) {
    const bool word = c.valid && is_word(c.code_point);
    n += word && !in_word ? 1 : 0;
    in_word = word;
  });
  return n;
}

/// A number that a text spells, white space around it and underscores between digits allowed; as
/// Python's float() has it.
std::optional<double> parse_real(const Text& text) {
  std::string digits = strip(text, std::nullopt, Side::Both).bytes();
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  if (digits.empty() || digits.starts_with("+") || digits.starts_with("--")) return std::nullopt;
  double value = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (bad == std::errc::result_out_of_range) return std::strtod(digits.c_str(), nullptr);
  if (bad != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_integer(const Text& text, int base) {
  std::string digits = strip(text, std::nullopt, Side::Both).bytes();
  std::erase(digits, '_');
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const auto prefix = [&](char letter, int its_base) {
    if (digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == letter &&
        (base == its_base || base == 0)) {
      base = its_base;
      digits.erase(0, 2);
    }
  };
  prefix('x', 16);
  prefix('o', 8);
  prefix('b', 2);
  if (base == 0) base = 10;
  std::int64_t value = 0;
  if (negative) digits.insert(0, 1, '-');
  const auto [end, bad] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (bad == std::errc::result_out_of_range)
    throw Failure("an integer is too large: more than 64 bits");
  if (bad != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// Returns nullopt for NaN and infinity; throws Failure beyond 64 bits.
std::optional<std::int64_t> truncated(double real) {
  if (!std::isfinite(real)) return std::nullopt;
  if (!(std::abs(real) < 9.2e18)) throw Failure("an integer is too large: more than 64 bits");
  return static_cast<std::int64_t>(real);
}

Value int_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("int", arguments, {"default", "base"});
  require_defined(input);
  std::optional<std::int64_t> value = input.integer();
  const std::int64_t base = args.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36))
    throw Failure("int() base must be >= 2 and <= 36, or 0");
  if (const Text* text = input.text()) {
    context.budget.step(text->size() / 8);
    value = parse_integer(*text, static_cast<int>(base));
    if (!value) {
      const auto real = parse_real(*text);
      value = real ? truncated(*real) : std::nullopt;
    }
  } else if (input.is_float()) {
    value = truncated(*input.real());
  }
  return value ? Value(*value) : args.get(0, 0);
}

Value float_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("float", arguments, {"default"});
  require_defined(input);
  if (input.text() != nullptr) context.budget.step(input.text()->size() / 8);
  const std::optional<double> value =
      input.text() != nullptr ? parse_real(*input.text()) : input.real();
  return value ? Value(*value) : args.get(0, 0.0);
}

Value abs_filter(Context&, const Value& input, const Arguments& arguments) {
  const Bound args("abs", arguments, {});
  require_defined(input);
  if (const auto i = input.integer()) return *i < 0 ? negative(*i) : Value(*i);
  if (input.is_float()) return std::abs(*input.real());
  throw Failure("bad operand type for abs(): '" + input.type_name() + "'");
}

/// Python's round: half to even, by the exact decimal value of the number.
Value round_common(const Value& input, std::int64_t precision) {
  precision = std::clamp<std::int64_t>(precision, -330, 330);
  if (!input.is_float() && precision >= 0) return *input.integer();
  const double value = *input.real();
  if (!std::isfinite(value)) return value;
  if (precision >= 0) {
    char buffer[700];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  const double rounded = std::nearbyint(value / unit) * unit;
  if (input.is_float()) return rounded;
  return truncated(rounded).value_or(0);
}

Value round_filter(Context&, const Value& input, const Arguments& arguments) {
  const Bound args("round", arguments, {"precision", "method"});
  require_defined(input);
  if (!input.is_number())
    throw Failure("type " + input.type_name() + " doesn't define __round__ method");
  const std::int64_t precision = args.integer(0, 0);
  const std::string method = args.text(1, "common").bytes();
  if (method == "common") return round_common(input, precision);
  if (method != "ceil" && method != "floor") throw Failure("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision)), scaled = *input.real() * unit;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

Value filesizeformat_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("filesizeformat", arguments, {"binary"});
  const std::optional<double> bytes =
      input.text() != nullptr ? parse_real(*input.text()) : input.real();
  if (!bytes || !std::isfinite(*bytes)) throw Failure("filesizeformat: expected a number");
  const bool binary = args.truth(0, false);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return "1 Byte";
  if (*bytes < base) {
    const auto whole = static_cast<std::int64_t>(std::max(*bytes, -9e18));
    return context.made(Text(std::to_string(whole) + " Bytes", true));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  std::size_t i = 0;
  double unit = base;
  for (; i + 1 < kPrefixes.size() && *bytes >= unit * base; ++i) unit *= base;
  char number[64];
  std::snprintf(number, sizeof number, "%.1f", std::min(*bytes / unit, 1e18));
  const std::string name =
      binary ? upper(kPrefixes.substr(i, 1)) + "iB" : std::string(kPrefixes.substr(i, 1)) + "B";
  return context.made(Text(std::string(number) + " " + name, true));
}

/// Percent-encoded except letters, digits and "_.-~/".
std::string url_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    char code[8];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
    out += plain ? std::string(1, c) : code;
  }
  return out;
}

Value urlencode_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("urlencode", arguments, {});
  if (input.dict() != nullptr || input.list() != nullptr)
    throw Failure("urlencode: expected str, got " + input.type_name());
  const Text text = context.text(input);
  context.budget.take(3 * text.size());
  return context.made(map_runs(text, url_quoted));
}

Value default_filter(Context&, const Value& input, const Arguments& arguments) {
  const Bound args("default", arguments, {"default_value", "boolean"});
  return input.is_undefined() || (args.truth(1, false) && !input.truth()) ? args.get(0, "") : input;
}

Value format_filter(Context& context, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty() && !arguments.positional.empty())
    throw Failure("can't handle positional and keyword arguments at the same time");
  const Text text = context.text(input);
  if (arguments.named.empty())
    return percent_format(context, text, List(arguments.positional, List::Kind::Tuple));
  Dict named;
  for (const auto& [name, value] : arguments.named) named.set(name, value);
  return percent_format(context, text, named);
}

Value attr_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("attr", arguments, {"name"}, 1);
  require_defined(input);
  context.budget.take(args.text(0).size());
  if (input.dict() != nullptr) {  // attributes only: no keys
    const Value found = attribute(Dict(), args.text(0).bytes());
    return found.is_undefined() ? found : attribute(input, args.text(0).bytes());
  }
  return attribute(input, args.text(0).bytes());
}

constexpr NamedFilter kFilters[] = {{"abs", abs_filter},
                                    {"attr", attr_filter},
                                    {"capitalize", capitalize_filter},
                                    {"center", center_filter},
                                    {"d", default_filter},
                                    {"default", default_filter},
                                    {"e", escape_filter},
                                    {"escape", escape_filter},
                                    {"filesizeformat", filesizeformat_filter},
                                    {"float", float_filter},
                                    {"format", format_filter},
                                    {"indent", indent_filter},
                                    {"int", int_filter},
                                    {"lower", case_filter<lower>},
                                    {"replace", replace_filter},
                                    {"round", round_filter},
                                    {"safe", safe_filter},
                                    {"string", string_filter},
                                    {"title", title_filter},
                                    {"tojson", tojson},
                                    {"trim", trim_filter},
                                    {"truncate", truncate_filter},
                                    {"upper", case_filter<upper>},
                                    {"urlencode", urlencode_filter},
                                    {"wordcount", wordcount_filter}};

}  // namespace

const NamedFilter* find_scalar_filter(std::string_view name) {
  const auto* const found = std::ranges::find(kFilters, name, &NamedFilter::name);
  return found == std::end(kFilters) ? nullptr : found;
}

bool is_filter(std::string_view name) {
  return find_scalar_filter(name) != nullptr || find_sequence_filter(name) != nullptr;
}

Value apply_filter(Context& context, std::string_view name, const Value& input,
                   const Arguments& arguments) {
  const NamedFilter* found = find_scalar_filter(name);
  if (found == nullptr) found = find_sequence_filter(name);
  if (found == nullptr) throw Failure("no filter named '" + std::string(name) + "'");
  return found->run(context, input, arguments);
}

}  // namespace cria::jinja
