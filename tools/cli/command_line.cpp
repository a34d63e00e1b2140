#include "tools/cli/command_line.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <tuple>

#include "engine/execute/machine.h"
#include "model/error.h"
#include "model/file/utf8.h"
#include "tools/model_store.h"
#include "tools/ranks/process_ranks.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

/// "--temp=0" is "--temp".
std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }

bool is_flag_word(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
}

bool is_whole_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

/// A script with line ends of Windows ends the last argument of each line with "\r".
void reject_carriage_return(const std::string& word) {
  if (word.ends_with('\r'))
    throw UsageError("the argument " + word.substr(0, word.size() - 1) +
                     " ends with a carriage return: the script has line ends of Windows, which "
                     "sed -i 's/\\r$//' SCRIPT removes");
}

/// True for the name of a file of texts or requests, which no model has.
bool names_data(const std::string& word) {
  constexpr std::string_view kEndings[] = {".json", ".jsonl", ".txt"};
  return std::ranges::any_of(kEndings, [&](std::string_view end) { return word.ends_with(end); });
}

/// True for the name of a GGUF file or a known model. True also for "qwen3:0.6b" and
/// "hf.co/USER/REPO": they name models of other programs, and -m says how to get them.
bool names_model(const std::string& word) {
  static const std::regex registry_name(
      R"((hf\.co|huggingface\.co)/\S+|[\w.-]+:(latest|\d+(\.\d+)?[bm][\w.-]*))");
  if (word.ends_with(".gguf")) return true;
  constexpr std::size_t kLongest = 200;
  if (word.size() > kLongest || word.find_first_of(" \n") != std::string::npos) return false;
  return std::regex_match(word, registry_name) ||
         std::ranges::count(known_models(), word, &KnownModel::name) != 0;
}

/// "8080", ":8080", "localhost:8080" or a URL as options; "" for other words.
std::string address_options(const std::string& word) {
  static const std::regex address(
      R"((https?://)?((localhost|\d+(\.\d+){3}|\[[\da-fA-F:]+\])?:)?(\d{2,5})/?)");
  std::smatch parts;
  if (!std::regex_match(word, parts, address)) return "";
  const std::string host = parts[3].str();
  return (host.empty() ? "" : "--host " + host + " ") + "--port " + parts[5].str();
}

/// Throws for an address where a server's model is expected.
void reject_address(const std::string& word) {
  if (const std::string options = address_options(word); !options.empty())
    throw UsageError(word + " is an address, not a model; set it by " + options);
}

/// Reads the words of one command from left to right.
class Reader {
 public:
  Reader(Command& command, const Words& typed) : command_(command), typed_(typed) {}

  void read() {
    for (; at_ < typed_.size(); ++at_) {
      const std::string& word = typed_[at_];
      if (word == "--") {
        arguments_.insert(arguments_.end(), typed_.begin() + static_cast<std::ptrdiff_t>(at_) + 1,
                          typed_.end());
        break;
      }
      if (is_flag_word(word) || word == "\r") reject_carriage_return(name_of(word));
      is_flag_word(word) ? read_flag(word) : arguments_.push_back(word);
    }
    give_arguments();
  }

 private:
  void read_flag(const std::string& word) {
    const std::string name = name_of(word);
    const bool is_long = word.starts_with("--");
    if (name == "-s" && command_.find("--seed") != nullptr && at_ + 1 < typed_.size() &&
        is_whole_number(typed_[at_ + 1]))
      throw UsageError("-s is the system message; --seed " + typed_[at_ + 1] + " sets the seed");
    if (name == "--think" && word.size() > name.size() &&
        !switch_value(word.substr(name.size() + 1)))
      throw UsageError("--think is on or off; --reasoning-effort " + word.substr(name.size() + 1) +
                       " sets how much a model thinks");
    if (Flag* const flag = command_.find(name); flag != nullptr && (is_long || name.size() == 2))
      return take_word(*flag, word, name.size());
    if (const ForeignName* const foreign = find_foreign_name(name, command_.name);
        foreign != nullptr && read_foreign(*foreign, name, word))
      return;
    if (is_long) {
      std::string hyphens = name;
      std::ranges::replace(hyphens, '_', '-');
      if (Flag* const flag = command_.find(hyphens); flag != nullptr)
        return take_word(*flag, word, name.size());
    } else if (is_bundle(name)) {
      Flag& flag = *command_.find(word.substr(0, 2));
      if (!flag.is_switch()) return take(flag, word.substr(2), true);  // "-n5"
      flag.give("true");
      return read_flag("-" + word.substr(2));  // "-vt"
    }
    fail_unknown(name);
  }

  /// True for letters of switches, of which the last may have a value: "-vt", "-vn5". Not for
  /// "-np", which is not "-n p", and "-model", which is "--model".
  [[nodiscard]] bool is_bundle(const std::string& name) const {
    if (command_.find("-" + name) != nullptr ||
        find_foreign_name("-" + name, command_.name) != nullptr)
      return false;
    for (std::size_t i = 1; i < name.size(); ++i) {
      const Flag* const flag = command_.find(std::string{'-', name[i]});
      if (flag == nullptr) return false;
      if (flag->is_switch()) continue;
      // "-sps" is an option of others rather than a system message "ps".
      if (flag->value == "TEXT") return i + 1 == name.size();
      return i + 1 == name.size() || !flag->is_number() ||
             std::string_view("0123456789-.").find(name[i + 1]) != std::string_view::npos;
    }
    return true;
  }

  [[noreturn]] void fail_unknown(const std::string& name) const {
    Words names;
    for (const Flag& flag : command_.flags)
      for (const std::string& known : flag.all_names())
        if (known.starts_with("--")) names.push_back(known);
    for (std::string& known : foreign_names_of(command_)) names.push_back(std::move(known));
    const bool is_long = name.starts_with("--");
    const bool has_spaces = name.find_first_of(" \n") != std::string::npos;
    const bool is_word = !has_spaces && name.size() > 2;
    std::string hint = is_word ? suggestion(is_long ? name : "-" + name, names) : "";
    if (command_.find("PROMPT") != nullptr && (hint.empty() || !is_long))
      hint += " (put -- before a text that begins with a hyphen)";
    throw UsageError("cria " + command_.name + " has no option " + name + hint);
  }

  static bool is_neutral(const ForeignName& foreign, const std::string& value) {
    const Words values = parts_of(foreign.neutral);
    return std::ranges::find(values, value) != values.end();
  }

  /// False if the flag that means the same does not belong to this command.
  bool read_foreign(const ForeignName& foreign, const std::string& name, const std::string& word) {
    const bool on_terminal = is_terminal(stdin) && is_terminal(stdout);
    const bool has_value = word.size() > name.size();
    const std::string why(foreign.why), ours(foreign.ours);
    if (is_neutral(foreign, has_value                 ? word.substr(name.size() + 1)
                            : at_ + 1 < typed_.size() ? typed_[at_ + 1]
                                                      : "")) {
      if (!has_value) ++at_;
      return true;
    }
    if (foreign.harmless)
      print_note(name + (ours.empty() ? " is ignored: " : " is " + ours + " here: ") + why);
    else if (!why.empty() && !(foreign.pipe_only && on_terminal))
      throw UsageError(name + " does not apply: " + why);
    if (!has_value && foreign.harmless && foreign.values == 0 && at_ + 1 < typed_.size()) {
      const auto is_state = [](const std::string& one) {
        return one == "auto" || one == "always" || one == "never" || switch_value(one).has_value();
      };
      const Words states = parts_of(typed_[at_ + 1]);  // -fa on, -fa 0,1
      if (!states.empty() && std::ranges::all_of(states, is_state)) ++at_;
    }
    if (ours.empty()) {  // cria always does so
      if (!has_value && !foreign.harmless) reject_value_behind(name);
      const bool has_next = at_ + 1 < typed_.size() && !is_flag_word(typed_[at_ + 1]);
      if (!has_value && has_next) at_ += foreign.values;
      return true;
    }
    Flag* const flag = command_.find(ours);
    if (flag == nullptr) return false;
    take_word(*flag, word, name.size());
    if (flag->target.takes == Target::Takes::One) check_same_value(*flag, name);
    return true;
  }

  /// Two names of another program may set what is one value here: -ctk f16 -ctv q8_0.
  void check_same_value(const Flag& flag, const std::string& name) {
    const std::string& value = flag.given.back();
    for (const auto& [other, other_name, other_value] : foreign_)
      if (other == &flag && other_name != name && other_value != value)
        throw UsageError(other_name + " " + other_value + " and " + name + " " + value +
                         " differ, but cria has one value for both: " + flag.shown_name());
    foreign_.emplace_back(&flag, name, value);
  }

  /// A word of a name, and perhaps "=VALUE".
  void take_word(Flag& flag, const std::string& word, std::size_t name_size) {
    const bool has_value = word.size() > name_size;
    take(flag, has_value ? word.substr(name_size + 1) : "", has_value);
  }

  /// Throws if the word after a switch may be its value as well as a text: "--think on".
  void reject_value_behind(const std::string& name) const {
    if (at_ + 1 >= typed_.size()) return;
    const std::string& next = typed_[at_ + 1];
    const std::string meant = lower_case(next);  // Python writes True
    if (name == "--think" && (meant == "low" || meant == "medium" || meant == "high"))
      throw UsageError(name + " " + next + ": write --reasoning-effort " + meant +
                       (command_.find("PROMPT") != nullptr ? ", or -- before a text" : ""));
    constexpr std::string_view kValues[] = {"auto", "on", "off", "true", "false"};
    if (std::ranges::find(kValues, meant) == std::end(kValues)) return;
    throw UsageError(name + " " + next + ": write " + name +
                     (meant == "auto" ? "=on or " + name + "=off" : "=" + next) +
                     (command_.find("PROMPT") != nullptr ? ", or -- before a text" : ""));
  }

  /// The flag's value: what stands in its own word, or the next word whatever it looks like.
  void take(Flag& flag, const std::string& value, bool has_value) {
    if (flag.is_switch() && !has_value) reject_value_behind(flag.shown_name());
    if (flag.is_switch() || has_value) return give(flag, has_value ? value : "true");
    if (at_ + 1 >= typed_.size() || (flag.is_number() && is_flag_word(typed_[at_ + 1])))
      throw UsageError(flag.shown_name(), "needs a value: " + flag.value_name() + ", " +
                                              flag.help.substr(0, flag.help.find_first_of(";(")));
    give(flag, typed_[++at_]);
    reject_scale_behind(flag);
    if (!flag.is_list()) return;
    while (at_ + 1 < typed_.size() && !is_flag_word(typed_[at_ + 1]) && typed_[at_ + 1] != "--" &&
           required_arguments() < typed_.size() - at_ - 1)
      give(flag, typed_[++at_]);
  }

  /// Other programs take the scale of an adapter as a word of its own: "--lora FILE 0.5".
  void reject_scale_behind(const Flag& flag) const {
    if (!flag.value.ends_with("[:SCALE]") || at_ + 1 >= typed_.size()) return;
    const std::string& file = typed_[at_];
    const std::string& next = typed_[at_ + 1];
    if (next.empty() || next.find_first_not_of("0123456789.") != std::string::npos) return;
    throw UsageError(flag.shown_name() + " " + file + " " + next + ": write " + file + ":" + next +
                     (command_.find("PROMPT") != nullptr ? ", or -- before a text" : ""));
  }

  /// "-s prompt.txt" and "-s @prompt.txt" are texts here.
  static void note_file_in_text(const Flag& flag, const std::string& word) {
    const std::string file = word.substr(word.starts_with('@') ? 1 : 0);
    std::error_code error;
    if (file.find_first_of("./") != std::string::npos && file.size() < 256 &&
        std::filesystem::is_regular_file(file, error))
      print_note(word + " is the text of " + flag.shown_name() + "; " + flag.shown_name() +
                 " \"$(cat " + file + ")\" would read the file");
  }

  /// A text may be empty or end with a carriage return; other values may not. One that may be a
  /// file is not empty either.
  static void give(Flag& flag, const std::string& word) {
    const bool is_text = flag.takes_text();
    if (word.empty() && flag.takes_file())
      throw UsageError(flag.shown_name(), "the name of the file is empty (an unset variable?)");
    if (!is_text && word.find_first_of(" \n{[") == std::string::npos) reject_carriage_return(word);
    if (is_text && !flag.is_argument() && !flag.takes_file()) note_file_in_text(flag, word);
    if (is_text && word.ends_with('\r'))
      print_note("the text of " + flag.shown_name() + " ends with a carriage return");
    flag.give(word);
  }

  [[nodiscard]] std::size_t required_arguments() const {
    const auto required = [](const Flag& f) { return f.is_argument() && f.rules.required; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(command_.flags, required));
    return count > arguments_.size() ? count - arguments_.size() : 0;
  }

  /// True if the first argument is the model: a GGUF file, the name of a known model, or anything
  /// for a command that takes no other text.
  [[nodiscard]] bool begins_with_model() const {
    const Flag* const model = command_.find("--model");
    if (model == nullptr || model->is_given || arguments_.empty()) return false;
    if (command_.find("FILE") != nullptr || command_.find("files") != nullptr) return false;
    const Flag* const prompt = command_.find("--prompt");
    const bool takes_text =
        std::ranges::any_of(command_.flags, &Flag::is_argument) || takes_prompt(prompt);
    return names_model(arguments_.front()) || (!takes_text && !names_data(arguments_.front()));
  }

  /// Notes if the prompt seems to be, or to begin with, the name of a model or file.
  void note_names_in_prompt() const {
    if (command_.find("PROMPT") == nullptr || arguments_.empty()) return;
    const Flag* const model = command_.find("--model");
    const std::string& first = arguments_.front();
    const auto is_part_of_name = [&first] {
      return first.find('-', 1) != std::string::npos && first.find(' ') == std::string::npos &&
             !matching_models(known_models(), first).empty();
    };
    if (model != nullptr && !model->is_given && (resembles_model(first) || is_part_of_name()))
      print_note(first + " is part of the prompt; -m " + first + " would choose a model");
    note_file_names();
  }

  /// "notes.txt" as a word of its own and "@notes.txt" in a text are texts here.
  void note_file_names() const {
    for (const std::string& argument : arguments_)
      for (const std::string& word : parts_of(argument, ' ')) {
        const bool marked = word.starts_with('@');
        const std::string file = word.substr(marked ? 1 : 0);
        const bool named =
            marked ||
            (word == argument && (arguments_.size() == 1 || word.find_first_of("./") != word.npos));
        std::error_code error;
        if (named && !file.empty() && std::filesystem::exists(file, error) &&
            !std::filesystem::is_directory(file, error))
          print_note(word + " is part of the prompt; " +
                     (word == argument && arguments_.size() == 1 ? "-f " : "< ") + file +
                     " would read the file");
      }
  }

  static bool takes_prompt(const Flag* prompt) {
    return prompt != nullptr && prompt->value == "TEXT";
  }

  /// Returns what may have been meant by an argument that the command does not take.
  [[nodiscard]] std::string argument_hint(const std::string& argument) const {
    for (const char* const name : {"--file", "--input", "--messages"})
      if (const Flag* const flag = command_.find(name); flag != nullptr && names_data(argument))
        return " (" + flag->all_names().front() + " FILE takes a file)";
    if (takes_prompt(command_.find("--prompt"))) return " (-p TEXT takes a text)";
    if (command_.name == "merge") return " (the first part of a model names the others)";
    if (command_.find("--set") != nullptr) return " (--set KEY=TYPE:VALUE changes metadata)";
    if (is_whole_number(argument) && command_.find("--threads") != nullptr)
      return " (-t " + argument + " sets the threads)";
    if (command_.find("--file") != nullptr) return " (-f FILE takes a file)";
    return command_.find("--output") != nullptr ? " (-o NAME is the output)" : "";
  }

  void give_arguments() {
    if (command_.find("--port") != nullptr && !arguments_.empty() &&
        !names_model(arguments_.front()))
      reject_address(arguments_.front());
    std::size_t next = 0;
    if (begins_with_model()) {
      Flag& model = *command_.find("--model");
      do give(model, arguments_[next++]);
      while (model.is_list() && next < arguments_.size() && names_model(arguments_[next]));
    } else {
      note_names_in_prompt();
    }
    for (Flag& flag : command_.flags)
      while (flag.is_argument() && next < arguments_.size()) {
        give(flag, arguments_[next++]);
        if (!flag.is_list()) break;
      }
    if (next == arguments_.size()) return;
    throw UsageError("unexpected argument: " + arguments_[next] + argument_hint(arguments_[next]));
  }

  Command& command_;
  const Words& typed_;
  std::size_t at_ = 1;  // after the command
  Words arguments_;
  std::vector<std::tuple<const Flag*, std::string, std::string>> foreign_;  // name, value
};

/// Returns what may have been meant by the last value, which is invalid. Other programs take host
/// and port in one, and mean the default by 0, -1 or "auto".
std::string value_hint(const Flag& flag) {
  if (flag.given.empty()) return "";
  const std::string& value = flag.given.back();
  if (flag.names == "--host" || flag.names == "--port") {
    const std::string options = address_options(value);
    return options.empty() || is_whole_number(value) ? "" : "; write " + options;
  }
  if (value != "0" && value != "auto" && !value.starts_with("-")) return "";
  if (!flag.target.default_text.empty()) return "; the default is " + flag.target.default_text;
  constexpr std::string_view kDefault = "(default: ";
  const std::size_t at = flag.help.find(kDefault);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kDefault.size();
  return "; the default is " + flag.help.substr(begin, flag.help.find(')', begin) - begin);
}

/// Both flags are given.
UsageError exclusion(const Flag& a, const Flag& b) {
  const Flag& named = a.is_argument() ? b : a;
  if (a.is_argument() != b.is_argument() && named.shown_name() == "--prompt")
    return UsageError("give the prompt either as an argument or with --prompt, not both");
  const auto has = [&](std::string_view name) {
    return a.shown_name() == name || b.shown_name() == name;
  };
  const bool text_of_file = has("--file") && (has("--prompt") || has("PROMPT"));
  return UsageError(a.shown_name() + " cannot be used together with " + b.shown_name() +
                    (text_of_file ? "; \"$(cat FILE)\" puts a file into a text" : ""));
}

/// The last of several values counts. That is usual for numbers, but a text or file may be missed.
void note_lost_values(const Flag& flag) {
  if (flag.target.takes != Target::Takes::One ||
      !(flag.takes_text() || flag.takes_file() || flag.value == "RE" || flag.value == "NAME"))
    return;
  const bool differ =
      std::ranges::any_of(flag.given, [&](const auto& word) { return word != flag.given.back(); });
  if (differ) print_note(flag.shown_name() + " is given several times; the last one counts");
}

}  // namespace

std::string unknown_command(const Program& program, const std::string& name,
                            const std::string& prompt) {
  std::string hint(foreign_command_hint(name));
  hint = hint.empty() ? suggestion(plain_command_name(name), program.command_names()) : "; " + hint;
  if (!prompt.empty() && (hint.empty() || prompt.find(' ') != std::string::npos))
    hint = "; did you mean cria run " + prompt + "?";
  return "unknown command: " + name + hint + " (cria help lists the commands)";
}

Command* read_arguments(Program& program, const Words& typed) {
  if (typed.empty())
    throw UsageError("a command is missing. The commands are:\n" +
                     command_list(program, help_columns(stderr)));
  const std::string& first = typed.front();
  reject_carriage_return(first);
  if (program.find(first) == nullptr && first.ends_with(".gguf")) {  // cria model.gguf [PROMPT]
    Words words = typed;
    words.insert(words.begin(), typed.size() == 1 ? "chat" : "run");
    return read_arguments(program, words);
  }
  const auto asks_version = [](const std::string& word) {
    return word == "-V" || word == "--version";
  };
  if (first == "-h" || first == "--help" || first == "-v" || asks_version(first)) return nullptr;
  if (is_flag_word(first)) {
    const std::string near = nearest_name(lower_case(first.starts_with("--") ? first : "-" + first),
                                          {"--help", "--version"});
    if (!near.empty())
      throw UsageError("cria has no option " + first + "; did you mean " + near + "?");
    const std::string bare = first.substr(std::min(first.find_first_not_of('-'), first.size()));
    if (program.find(bare) != nullptr)
      throw UsageError("cria has no option " + first + "; did you mean cria " + bare + "?");
    if (const std::string_view hint = foreign_command_hint(bare); !hint.empty())
      throw UsageError("cria has no option " + first + "; " + std::string(hint));
    Words words = {"cria", "run"};
    for (const std::string& word : typed) words.push_back(shell_word(word));
    throw UsageError("put a command before " + name_of(first) +
                     ", for example: " + joined(words, " ") + " (cria help lists the commands)");
  }
  Command* const command = program.find(first);
  if (command == nullptr) throw UsageError(unknown_command(program, first, shell_word(first)));
  if (typed.size() > 1 && asks_version(typed[1])) return nullptr;
  Reader(*command, typed).read();
  return command;
}

void set_values(Command& command) {
  for (Flag& flag : command.flags) {
    if (!flag.is_given) continue;
    const auto fail = [&](const std::string& what) {
      throw UsageError(flag.shown_name(),
                       what + (flag.source.empty() ? "" : " (from " + flag.source + ")"));
    };
    if (const Words& choices = flag.target.choices; !choices.empty())
      for (const std::string& value : flag.given)
        if (std::ranges::count(choices, value) == 0)
          fail("unknown value " + value + "; choose " + joined(choices) +
               (flag.rules.other.empty() ? "" : "; " + std::string(flag.rules.other)));
    if (flag.target.takes == Target::Takes::Once && flag.given.size() > 1)
      fail("is given twice, and only one would count");
    note_lost_values(flag);
    try {
      flag.target.set(flag.given);
    } catch (const Error& error) {
      fail(error.what() + value_hint(flag));
    }
  }
  for (const Flag& flag : command.flags) {
    if (flag.rules.required && !flag.is_given)
      throw UsageError(
          flag.shown_name() + " is missing" +
          (flag.target.choices.empty() ? "" : "; choose " + joined(flag.target.choices)));
    if (!flag.is_given) continue;
    const Words needs = parts_of(flag.rules.needs);
    if (!needs.empty() &&
        std::ranges::none_of(needs, [&](const auto& name) { return command.given(name); }))
      throw UsageError(flag.shown_name() + " needs " + joined(needs, " or "));
    for (const Flag& other : command.flags)
      if (other.is_given && Command::exclusive(flag, other)) throw exclusion(flag, other);
  }
}

std::string program_version() {
  const std::string commit = CRIA_COMMIT;
  return CRIA_VERSION + (commit.empty() ? "" : " (commit " + commit + ")");
}

std::string version_text() {
  const std::string commit = CRIA_COMMIT;
  return "cria " CRIA_VERSION " (" + (commit.empty() ? "" : "commit " + commit + "; ") +
         "runs on " + available_kernel_names() +
         (can_join_ranks() ? "; several machines by MPI" : "") + ")";
}

}  // namespace cria::tools
