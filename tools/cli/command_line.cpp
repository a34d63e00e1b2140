#include "tools/cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "engine/execute/machine.h"
#include "model/error.h"
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

/// True for the name of a GGUF file, of a known model, and for "qwen3:0.6b" and "hf.co/USER/REPO",
/// which name models of other programs: they are no prompts, and -m says how to get them.
bool names_model(const std::string& word) {
  static const std::regex registry_name(
      R"((hf\.co|huggingface\.co)/\S+|[\w.-]+:(latest|\d+(\.\d+)?[bm][\w.-]*))");
  if (word.ends_with(".gguf")) return true;
  constexpr std::size_t kLongest = 200;
  if (word.size() > kLongest || word.find_first_of(" \n") != std::string::npos) return false;
  return std::regex_match(word, registry_name) ||
         std::ranges::count(known_models(), word, &KnownModel::name) != 0;
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
    } else if (Flag* const flag = command_.find(word.substr(0, 2)); flag != nullptr) {
      const bool is_number = flag->value == "N" || flag->value == "X";
      if (is_number && name[2] != '-' && (name[2] < '0' || name[2] > '9') && name[2] != '.')
        fail_unknown(name);  // "-np", which is not "-n p"
      if (!flag->is_switch()) return take(*flag, word.substr(2), true);  // "-n5"
      flag->give("true");
      return read_flag("-" + word.substr(2));  // "-vt"
    }
    fail_unknown(name);
  }

  [[noreturn]] void fail_unknown(const std::string& name) const {
    const bool is_text =
        name.find_first_of(" \n") != std::string::npos && command_.find("PROMPT") != nullptr;
    Words names;
    for (const Flag& flag : command_.flags)
      for (const std::string& known : flag.all_names())
        if (known.starts_with("--")) names.push_back(known);
    throw UsageError(
        "cria " + command_.name + " has no option " + name +
        (is_text ? " (put -- before a text that begins with a hyphen)" : suggestion(name, names)));
  }

  /// False if the flag that means the same does not belong to this command.
  bool read_foreign(const ForeignName& foreign, const std::string& name, const std::string& word) {
    const bool on_terminal = is_terminal(stdin) && is_terminal(stdout);
    const bool has_value = word.size() > name.size();
    if (foreign.harmless)
      print_note(name + " is ignored: " + std::string(foreign.why));
    else if (!foreign.why.empty() && !(foreign.pipe_only && on_terminal))
      throw UsageError(name + " does not apply: " + std::string(foreign.why));
    if (foreign.harmless && foreign.values == 0 && at_ + 1 < typed_.size() &&
        switch_value(typed_[at_ + 1] == "auto" ? "on" : typed_[at_ + 1]))
      ++at_;                     // -fa on
    if (foreign.ours.empty()) {  // cria always does so
      if (!has_value) at_ += foreign.values;
      return true;
    }
    Flag* const flag = command_.find(foreign.ours);
    if (flag == nullptr) return false;
    take_word(*flag, word, name.size());
    return true;
  }

  /// A word of a name, and perhaps "=VALUE".
  void take_word(Flag& flag, const std::string& word, std::size_t name_size) {
    const bool has_value = word.size() > name_size;
    take(flag, has_value ? word.substr(name_size + 1) : "", has_value);
  }

  /// The flag's value: what stands in its own word, or the next word whatever it looks like.
  void take(Flag& flag, const std::string& value, bool has_value) {
    if (flag.is_switch() || has_value) return flag.give(has_value ? value : "true");
    if (at_ + 1 >= typed_.size()) throw UsageError(flag.shown_name(), "needs a value");
    flag.give(typed_[++at_]);
    if (!flag.is_list()) return;
    while (at_ + 1 < typed_.size() && !is_flag_word(typed_[at_ + 1]) && typed_[at_ + 1] != "--" &&
           required_arguments() < typed_.size() - at_ - 1)
      flag.give(typed_[++at_]);
  }

  [[nodiscard]] std::size_t required_arguments() const {
    const auto required = [](const Flag& f) { return f.is_argument() && f.rules.required; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(command_.flags, required));
    return count > arguments_.size() ? count - arguments_.size() : 0;
  }

  /// True if the first argument is the model: a GGUF file, or the name of a known model.
  [[nodiscard]] bool begins_with_model() const {
    const Flag* const model = command_.find("--model");
    if (model == nullptr || model->is_given || arguments_.empty()) return false;
    if (command_.find("FILE") != nullptr || command_.find("files") != nullptr) return false;
    return names_model(arguments_.front());
  }

  void give_arguments() {
    std::size_t next = 0;
    if (begins_with_model()) {
      Flag& model = *command_.find("--model");
      do model.give(arguments_[next++]);
      while (model.is_list() && next < arguments_.size() && names_model(arguments_[next]));
    }
    for (Flag& flag : command_.flags)
      while (flag.is_argument() && next < arguments_.size()) {
        flag.give(arguments_[next++]);
        if (!flag.is_list()) break;
      }
    if (next == arguments_.size()) return;
    const Flag* const prompt = command_.find("--prompt");
    throw UsageError(
        "unexpected argument: " + arguments_[next] +
        (prompt != nullptr && prompt->value == "TEXT" ? " (-p TEXT takes a text)" : ""));
  }

  Command& command_;
  const Words& typed_;
  std::size_t at_ = 1;  // after the command
  Words arguments_;
};

/// Both flags are given.
UsageError exclusion(const Flag& a, const Flag& b) {
  const Flag& named = a.is_argument() ? b : a;
  if (a.is_argument() != b.is_argument() && named.shown_name() == "--prompt")
    return UsageError("give the prompt either as an argument or with --prompt, not both");
  return UsageError(a.shown_name() + " cannot be used together with " + b.shown_name());
}

}  // namespace

std::string unknown_command(const Program& program, const std::string& name) {
  const std::string_view hint = foreign_command_hint(name);
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return "unknown command: " + name +
         (hint.empty() ? suggestion(lower, program.command_names()) : "; " + std::string(hint)) +
         " (cria help lists the commands)";
}

Command* read_arguments(Program& program, const Words& typed) {
  const auto fail = [&](const std::string& message) {
    throw UsageError(message + "The commands are:\n" + command_list(program, help_columns(stderr)));
  };
  if (typed.empty()) fail("a command is missing. ");
  const std::string& first = typed.front();
  if (program.find(first) == nullptr && first.ends_with(".gguf")) {  // cria model.gguf [PROMPT]
    Words words = typed;
    words.insert(words.begin(), typed.size() == 1 ? "chat" : "run");
    return read_arguments(program, words);
  }
  if (first == "-h" || first == "--help" || first == "-v" || first == "--version") return nullptr;
  if (is_flag_word(first))
    fail("put a command before " + name_of(first) + ", for example: cria run " + name_of(first) +
         " …\n");
  Command* const command = program.find(first);
  if (command == nullptr) throw UsageError(unknown_command(program, first));
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
          fail("unknown value " + value + "; choose " + joined(choices));
    try {
      flag.target.set(flag.given);
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  for (const Flag& flag : command.flags) {
    if (flag.rules.required && !flag.is_given) throw UsageError(flag.shown_name() + " is missing");
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
