#include "tools/cli/flag.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "model/error.h"
#include "model/file/utf8.h"

namespace cria::tools {
namespace {

std::string shown(bool whole, const Number& number) {
  std::ostringstream out;  // as few digits as the number needs
  whole ? out << number.whole : out << static_cast<double>(number.real);
  return out.str();
}

bool parse(const std::string& word, bool whole, Number& number) {
  const char* const end = word.data() + word.size();
  if (whole) {
    const char* const begin = word.data() + (word.starts_with('+') ? 1 : 0);
    const auto [rest, error] = std::from_chars(begin, end, number.whole);
    number.real = static_cast<long double>(number.whole);
    return error == std::errc() && rest == end;
  }
  char* rest = nullptr;
  number.real = std::strtold(word.c_str(), &rest);
  return rest == end && !word.empty();
}

/// llama-bench takes "16-64+16" for a list, and lists in more options.
std::string list_hint(const std::string& word, bool list) {
  if (word.find_first_not_of("0123456789,-+*") != std::string::npos) return "";
  if (list) return word.find('-', 1) == std::string::npos ? "" : "; a list is written 16,32,64";
  return word.find(',') == std::string::npos ? "" : "; it takes one value";
}

bool names_any(const Flag& row, std::string_view names) {
  return std::ranges::any_of(parts_of(names), [&](const auto& name) { return row.has_name(name); });
}

}  // namespace

namespace into {

Target flag(bool& value) {
  return {.takes = Target::Takes::Nothing, .set = [&value](const Words&) { value = true; }};
}

Target action(std::function<void()> act) {
  return {.takes = Target::Takes::Nothing, .set = [act = std::move(act)](const Words&) { act(); }};
}

Target call(std::function<void(const std::string&)> set, std::string default_text) {
  return {.set = [set = std::move(set)](const Words& given) { set(given.back()); },
          .default_text = std::move(default_text)};
}

Target text(std::string& value, Check check) {
  return call(
      [&value, check = std::move(check)](const std::string& word) {
        if (check) check(word);
        value = word;
      },
      value);
}

Target text(std::optional<std::string>& value) {
  return call([&value](const std::string& word) { value = word; });
}

Target once(Target target) {
  target.takes = Target::Takes::Once;
  return target;
}

Target words(Words& values, Check check) {
  return {.takes = Target::Takes::All,
          .set = [&values, check = std::move(check)](const Words& given) {
            if (check) std::ranges::for_each(given, check);
            values = given;
          }};
}

Target each(Words& values, Check check) {
  Target target = words(values, std::move(check));
  target.takes = Target::Takes::Each;
  return target;
}

Target words_or_list(Words& values) {
  Target target = words(values);
  target.set = [&values](const Words& given) {
    values.clear();
    for (const std::string& word : given) {
      std::error_code ignored;
      if (std::filesystem::exists(word, ignored))
        values.push_back(word);
      else
        for (std::string& part : parts_of(word)) values.push_back(std::move(part));
    }
  };
  return target;
}

Target output_file(std::string& path) {
  return text(path, [](const std::string& word) {
    if (word == "-") throw Error("", "expected the name of a file: this is not written to stdout");
    if (word.find("{ftype}") != std::string::npos)
      throw Error("", "{ftype} is not replaced; write the name of the type");
  });
}

Target choice(std::string& value, Words choices) {
  Target target = text(value);
  target.choices = std::move(choices);
  return target;
}

Target number_target(bool whole, double low, double high, bool list,
                     const std::vector<Number>& defaults,
                     std::function<void(const std::vector<Number>&)> store) {
  const auto fits = [=](const Number& number) { return number.real >= low && number.real <= high; };
  Target target{.takes = list ? Target::Takes::All : Target::Takes::One};
  for (const Number& number : defaults)
    if (fits(number))
      target.default_text += (target.default_text.empty() ? "" : ",") + shown(whole, number);
  target.set = [=, store = std::move(store)](const Words& given) {
    std::vector<Number> numbers;
    for (const std::string& word : given)
      for (const std::string& part : list ? parts_of(word) : Words{word}) {
        Number number;
        if (!parse(part, whole, number) || !fits(number))
          throw Error("", std::string("expected a ") + (whole ? "whole number" : "number") +
                              " from " + shown(whole, {static_cast<std::int64_t>(low), low}) +
                              " to " + shown(whole, {static_cast<std::int64_t>(high), high}) +
                              ", got " + part + list_hint(part, list));
        numbers.push_back(number);
      }
    if (!numbers.empty()) store(numbers);
  };
  return target;
}

}  // namespace into

bool Flag::takes_text() const {
  return names == "PROMPT" || value.find("TEXT") != std::string::npos;
}

bool Flag::takes_file() const {
  return value.starts_with("FILE") || names == "FILE" || names == "IN";
}

Words Flag::all_names() const { return parts_of(names); }

bool Flag::has_name(std::string_view name) const {
  return std::ranges::count(all_names(), name) != 0;
}

std::string Flag::shown_name() const {
  for (const std::string& name : all_names())
    if (name.starts_with("--")) return name;
  return all_names().front();
}

std::string Flag::setting_name() const {
  const std::string name = shown_name();
  return name.starts_with("--") && !name.starts_with("--help") ? name.substr(2) : "";
}

std::string Flag::value_name() const {
  if (is_argument()) return names;
  if (is_switch()) return "";
  return target.choices.empty() ? value : joined(target.choices, "|");
}

std::string Flag::group() const {
  return rules.group.empty() ? "Options" : std::string(rules.group);
}

std::optional<bool> switch_value(std::string_view word) {
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  for (const std::string_view off : {"0", "false", "no", "off", "n", "f", "disable"})
    if (lower == off) return false;
  for (const std::string_view on : {"1", "true", "yes", "on", "y", "t", "enable"})
    if (lower == on) return true;
  return std::nullopt;
}

void Flag::give(const std::string& word) {
  if (!is_switch()) {
    const auto chosen = std::ranges::find(target.choices, lower_case(word), lower_case);
    given.push_back(chosen == target.choices.end() ? word : *chosen);
    is_given = true;
    return;
  }
  const std::optional<bool> wanted = switch_value(word);
  if (!wanted) throw UsageError(shown_name(), "expected true or false, got " + word);
  is_given = *wanted;
}

Flags only(Flags rows, std::string_view names) {
  std::erase_if(rows, [&](const Flag& row) { return !names_any(row, names); });
  return rows;
}

Flags without(Flags rows, std::string_view names) {
  std::erase_if(rows, [&](const Flag& row) { return names_any(row, names); });
  return rows;
}

Flags in_group(Flags rows, std::string_view group) {
  for (Flag& row : rows) row.rules.group = group;
  return rows;
}

void Command::add(Flags rows) {
  for (Flag& row : rows) {
    if (Flag* const before = find(row.all_names().back()); before != nullptr)
      *before = std::move(row);
    else
      flags.push_back(std::move(row));
  }
}

Flag* Command::find(std::string_view flag_name) {
  const auto found =
      std::ranges::find_if(flags, [&](const Flag& f) { return f.has_name(flag_name); });
  return found == flags.end() ? nullptr : &*found;
}

const Flag* Command::find(std::string_view flag_name) const {
  return const_cast<Command*>(this)->find(flag_name);
}

bool Command::given(std::string_view flag_name) const {
  const Flag* const found = find(flag_name);
  return found != nullptr && found->is_given;
}

bool Command::typed(std::string_view flag_name) const {
  const Flag* const found = find(flag_name);
  return found != nullptr && found->is_typed();
}

bool Command::exclusive(const Flag& a, const Flag& b) {
  return names_any(a, b.rules.excludes) || names_any(b, a.rules.excludes);
}

Command& Program::add(std::string name, std::string summary) {
  commands.push_back(
      {.name = std::move(name),
       .summary = std::move(summary),
       .notes = {},
       .run = nullptr,
       .flags = {{"-h,--help", "", "print this help and exit", into::action([] {})},
                 {"--help-all", "", "print all options and exit", into::action([] {})}}});
  return commands.back();
}

Command* Program::find(std::string_view name) {
  const auto found = std::ranges::find(commands, name, &Command::name);
  return found == commands.end() ? nullptr : &*found;
}

Words Program::command_names() const {
  Words names;
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

std::string joined(const Words& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "+,-./:=@_";
  const auto plain = [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Words parts_of(std::string_view text, char separator) {
  Words parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

}  // namespace cria::tools
