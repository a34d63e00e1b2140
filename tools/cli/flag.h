// The command line as data: commands are tables of flags, from which parsing, help, completion,
// the manual page, settings and error texts follow.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cria::tools {

/// Wrong usage: exit code 2.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& message) : std::runtime_error(message) {}
  UsageError(const std::string& flag, const std::string& message)
      : std::runtime_error(flag + ": " + message), flag_(flag) {}
  /// The flag whose value is wrong, such as "--temp"; "" if none is.
  [[nodiscard]] const std::string& flag() const { return flag_; }

 private:
  std::string flag_;
};

using Words = std::vector<std::string>;

/// Receives the values of a flag. Made by the functions of `into`, whose
/// references must outlive the command.
struct Target {
  enum class Takes : std::uint8_t {
    Nothing,
    One,   ///< the last one given counts
    Once,  ///< a second one is an error, since the text of the first would be lost
    Each,  ///< one per occurrence
    All,   ///< the words up to the next flag
  };
  Takes takes = Takes::One;
  std::function<void(const Words&)> set =
      nullptr;  ///< Throws Error that says what is wrong with a value.
  std::string default_text = {};
  Words choices = {};  ///< the allowed values, if they are few
};

/// A value as read: `whole` of integers, `real` of all.
struct Number {
  std::int64_t whole = 0;
  long double real = 0;
};

/// Targets: into::number(options.threads, 1, 1024).
namespace into {

/// A switch.
Target flag(bool& value);
/// A switch that runs `act`.
Target action(std::function<void()> act);
/// Runs `set` with the last value given.
Target call(std::function<void(const std::string&)> set, std::string default_text = "");
/// Throws Error for a wrong string.
using Check = std::function<void(const std::string&)>;
/// A string.
Target text(std::string& value, Check check = nullptr);
Target text(std::optional<std::string>& value);
/// The same target, which must not be given twice.
Target once(Target target);
/// One string per occurrence.
Target each(Words& values, Check check = nullptr);
/// The strings up to the next flag; `words_or_list` also takes them separated by commas, but a file
/// whose name has commas is one string.
Target words(Words& values, Check check = nullptr);
Target words_or_list(Words& values);
/// The name of a file to write; not "-", which means stdout elsewhere.
Target output_file(std::string& path);
/// One of a few strings.
Target choice(std::string& value, Words choices);

/// One of a few named values; `shown` is the default in help texts.
template <class T>
Target choice(T& value, std::vector<std::pair<std::string, T>> named, std::string shown) {
  Target target{.default_text = std::move(shown)};
  for (const auto& [name, ignored] : named) target.choices.push_back(name);
  target.set = [&value, named = std::move(named)](const Words& given) {
    for (const auto& [name, meant] : named)
      if (name == given.back()) value = meant;
  };
  return target;
}

/// A number within the bounds, or a list of them.
Target number_target(bool whole, double low, double high, bool list,
                     const std::vector<Number>& defaults,
                     std::function<void(const std::vector<Number>&)> store);

/// A number, an optional number, or a list of numbers separated by commas. The default is shown if
/// it lies within the bounds.
template <class T>
Target number(T& value, double low, double high) {
  std::vector<Number> defaults;
  const auto as_number = [](auto v) {
    return Number{static_cast<std::int64_t>(v), static_cast<long double>(v)};
  };
  if constexpr (std::is_arithmetic_v<T>) {
    defaults.push_back(as_number(value));
    return number_target(std::is_integral_v<T>, low, high, false, defaults,
                         [&value](const std::vector<Number>& numbers) {
                           if constexpr (std::is_integral_v<T>)
                             value = static_cast<T>(numbers.back().whole);
                           else
                             value = static_cast<T>(numbers.back().real);
                         });
  } else {
    using V = typename T::value_type;
    const auto converted = [](const Number& n) {
      if constexpr (std::is_integral_v<V>)
        return static_cast<V>(n.whole);
      else
        return static_cast<V>(n.real);
    };
    constexpr bool kList = requires { value.push_back({}); };
    if constexpr (kList)
      for (const V v : value) defaults.push_back(as_number(v));
    return number_target(std::is_integral_v<V>, low, high, kList, defaults,
                         [&value, converted](const std::vector<Number>& numbers) {
                           if constexpr (kList) {
                             value.clear();
                             for (const Number& n : numbers) value.push_back(converted(n));
                           } else {
                             value = converted(numbers.back());
                           }
                         });
  }
}

}  // namespace into

/// Further rules of a flag. Lists of flags are separated by commas.
struct Rules {
  bool required = false;
  std::string_view excludes = {};  ///< flags that it cannot be used with
  std::string_view needs = {};     ///< flags without one of which it means nothing
  std::string_view group = {};     ///< heading in the help; empty: "Options"
  std::string_view other = {};     ///< what to do for values that are not among its choices
};

/// A row of a command's table.
struct Flag {
  std::string names;  ///< "-t,--threads"; an argument has one name: "FILE"
  std::string value;  ///< name of its value, "N"; "" for choices and switches
  std::string help;
  Target target;
  Rules rules = {};

  // Set by the command line and the settings of this run.
  Words given = {};         ///< its values for this run
  bool is_given = false;    ///< by the command line or a setting
  std::string source = {};  ///< the setting that gave it, such as "CRIA_TEMP"; "": typed

  [[nodiscard]] bool is_argument() const { return names[0] != '-'; }
  [[nodiscard]] bool is_switch() const { return target.takes == Target::Takes::Nothing; }
  [[nodiscard]] bool is_list() const { return target.takes == Target::Takes::All; }
  [[nodiscard]] bool is_number() const { return value == "N" || value == "X"; }
  [[nodiscard]] bool is_typed() const { return is_given && source.empty(); }
  [[nodiscard]] bool takes_text() const;
  [[nodiscard]] bool takes_file() const;
  [[nodiscard]] Words all_names() const;
  [[nodiscard]] bool has_name(std::string_view name) const;
  /// Its name in messages: "--threads", "FILE".
  [[nodiscard]] std::string shown_name() const;
  /// The key of files and variables, "threads"; "" for arguments and --help.
  [[nodiscard]] std::string setting_name() const;
  /// The value in help texts: "N", "f16|f32", "FILE"; "" for a switch.
  [[nodiscard]] std::string value_name() const;
  [[nodiscard]] std::string group() const;
  /// Adds a value. Throws UsageError if a switch gets one that is neither true nor false.
  void give(const std::string& word);
};

/// True or false for the words that turn a switch on or off.
std::optional<bool> switch_value(std::string_view word);

using Flags = std::vector<Flag>;
/// The rows with one of the names (separated by commas), or all others.
Flags only(Flags rows, std::string_view names);
Flags without(Flags rows, std::string_view names);
/// The rows under another heading.
Flags in_group(Flags rows, std::string_view group);

struct Command {
  std::string name, summary;
  std::string notes;         ///< further paragraphs and examples, for the end of the help
  std::function<int()> run;  ///< returns the exit code
  Flags flags = {};

  /// Adds rows; one whose last name is that of an earlier row replaces it.
  void add(Flags rows);
  [[nodiscard]] Flag* find(std::string_view flag_name);
  [[nodiscard]] const Flag* find(std::string_view flag_name) const;
  /// True if the flag has a value for this run, from whatever source.
  [[nodiscard]] bool given(std::string_view flag_name) const;
  /// True if it is on the command line.
  [[nodiscard]] bool typed(std::string_view flag_name) const;
  /// True if either flag excludes the other.
  [[nodiscard]] static bool exclusive(const Flag& a, const Flag& b);
};

struct Program {
  std::string description, notes;
  std::deque<Command> commands = {};

  /// A new command with --help and --help-all.
  Command& add(std::string name, std::string summary);
  [[nodiscard]] Command* find(std::string_view name);
  [[nodiscard]] Words command_names() const;
};

/// "a, b, c"
std::string joined(const Words& words, std::string_view separator = ", ");
/// The word as a POSIX shell reads it, in quotes where it needs them.
std::string shell_word(const std::string& word);
/// The parts of a text between separators, without blanks around them.
Words parts_of(std::string_view text, char separator = ',');

}  // namespace cria::tools
