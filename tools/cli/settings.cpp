#include "tools/cli/settings.h"

#include <toml++/toml.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "model/error.h"
#include "model/file/binary_file.h"
#include "model/file/utf8.h"
#include "model/plural.h"
#include "tools/cli/command_line.h"
#include "tools/model_store.h"
#include "tools/ranks/process_ranks.h"
#include "tools/report/roofline.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

constexpr std::string_view kPreset = "preset";
constexpr std::size_t kMaxBytes = 64 * 1024;
// The parser goes through keys of many parts by recursion. No file of 64 KiB needs that many dots.
constexpr std::ptrdiff_t kMaxDots = 2000;

struct BuiltinPreset {
  std::string_view name, option, value;
};
constexpr BuiltinPreset kBuiltin[] = {
    {"exact", "temp", "0"},     {"creative", "temp", "1.2"},  {"creative", "top-k", "0"},
    {"creative", "top-p", "1"}, {"creative", "min-p", "0.1"},
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A preset may hold sampling options and the system message.
bool belongs_to_preset(const Flag& flag) {
  return flag.group() == "Sampling" || flag.has_name("--system");
}

Words keys_of(const Program& program, const std::string& section) {
  Words keys;
  const bool is_preset = section.starts_with(std::string(kPreset) + ".");
  for (const Command& command : program.commands) {
    if (!section.empty() && !is_preset && command.name != section) continue;
    for (const Flag& flag : command.flags)
      if (std::string name = flag.setting_name();
          !name.empty() && (!is_preset || belongs_to_preset(flag)))
        keys.push_back(std::move(name));
  }
  return keys;
}

/// "; did you mean max-tokens?" for "n", another name of that option, and for "max-tokns".
std::string nearest_key(const Program& program, const std::string& name, const Words& keys) {
  const std::string typed = (name.size() == 1 ? "-" : "--") + name;
  for (const Command& command : program.commands)
    if (const Flag* const flag = command.find(typed);
        flag != nullptr && std::ranges::count(keys, flag->setting_name()) != 0)
      return "; did you mean " + flag->setting_name() + "?";
  return suggestion(name, keys);
}

/// True if a setting for all commands cannot mean this one: here its name is a switch, elsewhere it
/// takes a value, and this is one. 0 and 1 are numbers and turn switches off and on.
bool is_for_others(const Program& program, const Flag& flag, const Words& values) {
  if (!flag.is_switch()) return false;
  const bool is_number = values.size() == 1 && (values.front() == "0" || values.front() == "1");
  if (values.size() == 1 && switch_value(values.front()) && !is_number) return false;
  return std::ranges::any_of(program.commands, [&](const Command& other) {
    const Flag* const found = other.find("--" + flag.setting_name());
    return found != nullptr && !found->is_switch() && found->setting_name() == flag.setting_name();
  });
}

/// The text to type for the value.
std::string typed_text(const toml::node& value, const std::string& key) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
  if (const auto* number = value.as_floating_point()) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, number->get()).ptr};
  }
  throw UsageError(key, "expected a string, a number, true or false, or an array of them");
}

std::vector<std::string> typed_texts(const toml::node& value, const std::string& key) {
  if (!value.is_array()) return {typed_text(value, key)};
  std::vector<std::string> texts;
  for (const toml::node& element : *value.as_array()) texts.push_back(typed_text(element, key));
  return texts;
}

/// Adds a table and its inner tables. Throws UsageError for a key that no command has.
void add_table(const Program& program, const std::string& section, const toml::table& table,
               std::map<std::string, ConfigFile::Values>& sections) {
  const std::vector<std::string> keys = keys_of(program, section);
  const bool known = !keys.empty() || section == kPreset;
  if (!known) throw UsageError("[" + section + "] is neither a command nor a preset");
  for (const auto& [key, value] : table) {
    std::string name(key.str());
    if (const toml::table* const inner = value.as_table()) {
      add_table(program, section.empty() ? name : section + "." + name, *inner, sections);
      continue;
    }
    std::ranges::replace(name, '_', '-');
    const std::string place = section.empty() ? name : "[" + section + "] " + name;
    if (std::ranges::find(keys, name) == keys.end())
      throw UsageError("unknown option " + place + nearest_key(program, name, keys));
    if (std::vector<std::string> texts = typed_texts(value, place); !texts.empty())
      sections[section][name] = std::move(texts);
  }
}

/// The bytes of a file, at most one above the limit; nullopt if it cannot be opened. Reads each
/// file once, since a pipe can be read only once.
const std::optional<std::string>& file_bytes(const std::string& path) {
  static std::map<std::string, std::optional<std::string>> files;
  const auto [place, is_new] = files.try_emplace(path);
  std::optional<std::string>& bytes = place->second;
  std::error_code error;
  if (!is_new || std::filesystem::is_directory(path, error)) return bytes;
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) return bytes;
  std::string read(kMaxBytes + 1, '\0');
  in.read(read.data(), static_cast<std::streamsize>(read.size()));
  if (in.bad()) throw UsageError(path, "cannot be read");
  read.resize(static_cast<std::size_t>(in.gcount()));
  return bytes = std::move(read);
}

/// A hint for an error of the parser, or "".
std::string hint(std::string_view toml, std::string_view problem) {
  const auto says = [&](std::string_view words) {
    return problem.find(words) != std::string_view::npos;
  };
  if (says("existing string 'preset.") || says("existing table 'preset'") ||
      (says("existing string as dotted key") && toml.find("preset.") != std::string_view::npos))
    return " (with a section [preset.NAME], TOML allows preset = \"NAME\" only in a "
           "section: [run] "
           "or [chat])";
  // Without quotes a text is taken for what its first letter begins: f for false, i for inf, a
  // digit for a number.
  constexpr std::string_view kValues[] = {"value",   "boolean", "floating-point",
                                          "integer", "date",    "time"};
  const bool in_value = std::ranges::any_of(
      kValues, [&](std::string_view kind) { return says(std::string(kind) + ": "); });
  const bool unexpected =
      says(": expected ") || says(": could not determine") || says(": encountered end");
  return in_value && unexpected ? " (put a string in quotes)" : "";
}

ConfigFile::Values preset_values(const std::string& name, const ConfigFile& file) {
  if (const ConfigFile::Values* own = file.section(std::string(kPreset) + "." + name)) return *own;
  ConfigFile::Values values;
  std::vector<std::string> names = file.presets();
  for (const BuiltinPreset& preset : kBuiltin) {
    names.emplace_back(preset.name);
    if (preset.name == name) values[std::string(preset.option)] = {std::string(preset.value)};
  }
  if (!values.empty()) return values;
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  throw UsageError("--preset", "unknown preset " + name + suggestion(name, names) +
                                   " (known presets: " + joined(names) + ")");
}

/// A setting, and whether it is for all commands.
using Source = std::pair<Setting, bool>;

/// The values of a name in environment and file; the first counts most.
std::vector<Source> sources_of(const std::string& name, const Command& command,
                               const ConfigFile& file) {
  std::vector<Source> sources;
  const std::string variable = environment_name(name);
  if (const std::string value = environment(variable.c_str()); !value.empty())
    sources.push_back({{{value}, variable}, true});
  for (const std::string& section : {command.name, std::string()})
    if (const ConfigFile::Values* values = file.section(section);
        values != nullptr && values->contains(name))
      sources.push_back(
          {{values->at(name), file.path() + (section.empty() ? "" : " [" + section + "]")},
           section.empty()});
  return sources;
}

/// True if a switch is turned off, which is its default. Throws UsageError for other words.
bool turns_off(const Flag& flag, const Setting& setting) {
  if (!flag.is_switch()) return false;
  const auto wanted =
      setting.values.size() == 1 ? switch_value(setting.values.front()) : std::nullopt;
  if (wanted) return !*wanted;
  throw UsageError(flag.shown_name(), "expected true or false, got " + joined(setting.values) +
                                          " (from " + setting.source + ")");
}

}  // namespace

std::string ConfigFile::default_path() {
  if (const std::string named = environment("CRIA_CONFIG"); !named.empty()) return named;
  if (const std::string config = environment("XDG_CONFIG_HOME"); config.starts_with('/'))
    return config + "/cria/config.toml";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.config/cria/config.toml";
}

ConfigFile ConfigFile::read(const Program& program, const std::string& path) {
  ConfigFile file;
  file.path_ = path;
  if (path.empty()) return file;
  const std::optional<std::string>& bytes = file_bytes(path);
  if (!bytes) {
    if (!environment("CRIA_CONFIG").empty())
      throw UsageError(path, "the file that CRIA_CONFIG names cannot be opened");
    return file;
  }
  file.found_ = true;
  if (bytes->size() > kMaxBytes) throw UsageError(path, "a configuration file has at most 64 KiB");
  if (std::ranges::count(*bytes, '.') > kMaxDots)
    throw UsageError(path, "more than " + std::to_string(kMaxDots) + " dots");
  try {
    add_table(program, "", toml::parse(std::string_view(*bytes)), file.sections_);
  } catch (const toml::parse_error& problem) {
    const std::string what(problem.description());
    throw UsageError(path, "line " + std::to_string(problem.source().begin.line) + ": " + what +
                               hint(*bytes, what));
  } catch (const UsageError& problem) {
    throw UsageError(path, problem.what());
  }
  return file;
}

const ConfigFile::Values* ConfigFile::section(const std::string& name) const {
  const auto found = sections_.find(name);
  return found == sections_.end() ? nullptr : &found->second;
}

std::vector<std::string> ConfigFile::presets() const {
  std::vector<std::string> names;
  const std::string beginning = std::string(kPreset) + ".";
  for (const auto& [name, values] : sections_)
    if (name.starts_with(beginning)) names.push_back(name.substr(beginning.size()));
  return names;
}

std::string environment_name(const std::string& option) {
  std::string name = "CRIA_";
  for (const char c : option)
    name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

namespace {

/// "; did you mean CRIA_TEMP?" for CRIA_TMEP, and for CRIA_TEMPERATURE, a name of other programs.
std::string nearest_variable(const std::string& variable, const Command& command) {
  std::string option = lower_case(variable.substr(std::string_view("CRIA_").size()));
  std::ranges::replace(option, '_', '-');
  Words names;
  for (const Flag& flag : command.flags)
    if (!flag.setting_name().empty()) names.push_back(flag.setting_name());
  if (const Flag* const flag = command.find((option.size() == 1 ? "-" : "--") + option);
      flag != nullptr && !flag->setting_name().empty())
    return "; did you mean " + environment_name(flag->setting_name()) + "?";
  const ForeignName* const foreign = find_foreign_name("--" + option, command.name);
  const std::string ours(foreign == nullptr ? "" : foreign->ours);
  const std::string near = ours.starts_with("--") ? ours.substr(2) : nearest_name(option, names);
  return near.empty() ? "" : "; did you mean " + environment_name(near) + "?";
}

}  // namespace

void note_other_variables(const Program& program, const Command& command) {
  static constexpr std::string_view kOthers[] = {"CRIA_CONFIG", "CRIA_ISA", "CRIA_LIBRARY",
                                                 "CRIA_MODELS"};
  const auto is_known = [&program](const std::string& variable) {
    const auto sets = [&variable](const Flag& flag) {
      return !flag.setting_name().empty() && variable == environment_name(flag.setting_name());
    };
    return std::ranges::count(kOthers, variable) != 0 ||
           std::ranges::any_of(program.commands, [&sets](const Command& one) {
             return std::ranges::any_of(one.flags, sets);
           });
  };
  const bool peers = command.name == "serve" || command.name == "config";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable(*entry, std::strcspn(*entry, "="));
    if (variable.starts_with("CRIA_") && !is_known(variable))
      print_note(variable + " is not the name of an option" + nearest_variable(variable, command));
    else if (peers && (variable.starts_with("LLAMA_ARG_") ||
                       (variable.starts_with("OLLAMA_") && variable != "OLLAMA_MODELS") ||
                       variable == "LLAMA_API_KEY" || variable == "VLLM_API_KEY"))
      print_note(variable + " is ignored: cria reads the variables that begin with CRIA_");
  }
}

std::vector<std::string> builtin_preset_names() {
  Words names;
  for (const BuiltinPreset& preset : kBuiltin)
    if (names.empty() || names.back() != preset.name) names.emplace_back(preset.name);
  return names;
}

void add_preset_flags(Program& program) {
  for (Command& command : program.commands)
    if (command.find("--temp") != nullptr)
      command.add({{"--preset",
                    "NAME",
                    std::string("sampling ") +
                        (command.find("--system") != nullptr ? "and system message " : "options ") +
                        "by name: " + joined(builtin_preset_names()) +
                        ", or a section [preset.NAME] of the configuration file",
                    into::call([](const std::string&) {}),
                    {.group = "Sampling"}}});
}

namespace {

/// The name of the preset that the command line or a setting asks for; "" if none.
std::string wanted_preset(const Command& command, const ConfigFile& file) {
  const Flag* const preset = command.find("--preset");
  if (preset == nullptr) return "";
  if (preset->is_given) return preset->given.back();
  const auto found = sources_of(std::string(kPreset), command, file);
  return found.empty() ? "" : found.front().first.values.front();
}

}  // namespace

CommandSettings settings_for(const Program& program, const Command& command,
                             const ConfigFile& file) {
  CommandSettings settings;
  const std::string wanted = wanted_preset(command, file);
  const ConfigFile::Values of_preset =
      wanted.empty() ? ConfigFile::Values{} : preset_values(wanted, file);
  for (const Flag& flag : command.flags) {
    const std::string name = flag.setting_name();
    if (name.empty() || flag.is_given || is_excluded(command, flag)) continue;
    std::optional<Setting> setting;
    if (const auto found = of_preset.find(name);
        found != of_preset.end() && belongs_to_preset(flag))
      setting = Setting{found->second, "preset " + wanted};
    for (auto& [source, for_all] : sources_of(name, command, file))
      if (!setting && !(for_all && is_for_others(program, flag, source.values)))
        setting = std::move(source);
    if (setting && !turns_off(flag, *setting)) settings[name] = std::move(*setting);
  }
  std::erase_if(settings, [&](const auto& setting) {
    const Words needs = parts_of(command.find("--" + setting.first)->rules.needs);
    return !needs.empty() && std::ranges::none_of(needs, [&](const std::string& other) {
      return command.given(other) || settings.contains(other.substr(2));
    });
  });
  return settings;
}

void note_unused_settings(const Command& command, const ConfigFile& file) {
  const std::string wanted = wanted_preset(command, file);
  const auto source_of = [&](const std::string& name) -> std::string {
    if (!wanted.empty() && preset_values(wanted, file).contains(name)) return "preset " + wanted;
    const auto found = sources_of(name, command, file);
    return found.empty() ? "" : found.front().first.source;
  };
  if (command.find("--preset") != nullptr && command.find("--system") == nullptr)
    if (const std::string source = source_of("system"); !source.empty())
      print_note("the system message of " + source + " is not used: requests have their own");
  for (const Flag& flag : command.flags) {
    const bool is_text = flag.takes_text() || flag.takes_file();
    if (!is_text || flag.setting_name().empty() || flag.is_given) continue;
    const auto other = std::ranges::find_if(command.flags, [&](const Flag& one) {
      return one.is_given && Command::exclusive(flag, one);
    });
    const std::string source = other == command.flags.end() ? "" : source_of(flag.setting_name());
    if (!source.empty())
      print_note(flag.shown_name() + " from " + source + " is ignored with " + other->shown_name());
  }
}

bool is_excluded(const Command& command, const Flag& flag) {
  return std::ranges::any_of(command.flags, [&](const Flag& other) {
    return other.is_given && Command::exclusive(flag, other);
  });
}

void apply_settings(Command& command, const CommandSettings& settings) {
  for (const auto& [name, setting] : settings) {
    Flag& flag = *command.find("--" + name);
    if (is_excluded(command, flag)) continue;
    for (const std::string& value : setting.values) flag.give(value);
    flag.source = setting.source;
  }
}

std::string with_source(const UsageError& error, const CommandSettings& settings) {
  const std::string message = error.what();
  const auto found =
      error.flag().starts_with("--") ? settings.find(error.flag().substr(2)) : settings.end();
  const bool named = found == settings.end() || message.find("(from ") != std::string::npos;
  return named ? message : message + " (from " + found->second.source + ")";
}

namespace {

namespace fs = std::filesystem;

/// "model.gguf, 619800384 bytes": the same wherever it lies.
std::string key_of_model(const std::string& model) {
  return fs::path(model).filename().string() + ", " + counted(fs::file_size(model), "byte");
}

bool is_tuned_json(const Json& json) {
  if (!json.is_object()) return false;
  for (const auto& machine : json) {
    if (!machine.is_object()) return false;
    for (const auto& options : machine) {
      if (!options.is_object()) return false;
      for (const auto& value : options)
        if (!value.is_string()) return false;
    }
  }
  return true;
}

/// {machine: {model: {option: value}}}
Json read_tuned() {
  std::ifstream in(tuned_path());
  if (!in) return Json::object();
  Json json = try_json(std::string(std::istreambuf_iterator(in), {}));
  if (is_tuned_json(json)) return json;
  print_warning(tuned_path() + " is not a file written by cria bench --tune; ignored");
  return Json::object();
}

/// The models that -m names: typed, else set.
Words named_models(const CommandSettings& settings, const Command& command) {
  const Flag* const model = command.find("--model");
  if (model != nullptr && model->is_given) return model->given;
  const auto set = settings.find("model");
  return set != settings.end() ? set->second.values : Words{""};
}

}  // namespace

std::string typed_options(const TunedOptions& options) {
  std::string text;
  for (const auto& [name, value] : options)
    text += (text.empty() ? "--" : " --") + name + (value == "true" ? "" : " " + value);
  return text;
}

std::string tuned_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/cria/tuned.json";
  return home == nullptr || *home == '\0' ? ""
                                          : std::string(home) + "/.local/state/cria/tuned.json";
}

TunedOptions remembered_options(const std::string& model) {
  TunedOptions options;
  const Json json = read_tuned();
  const auto machine = json.find(machine_label());
  if (machine == json.end()) return options;
  if (const auto found = machine->find(key_of_model(model)); found != machine->end())
    for (const auto& [name, value] : found->items()) options[name] = value.get<std::string>();
  return options;
}

void remember_options(const std::string& model, const TunedOptions& options) {
  const std::string path = tuned_path();
  if (path.empty())
    throw Error("", "set HOME or XDG_STATE_HOME, which say where to remember options");
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) throw Error(path, "cannot be written: " + error.message());
  Json json = read_tuned();
  json[machine_label()][key_of_model(model)] = options;
  OutputFile file(path);
  file.write(json_text(json));
  file.finish();
}

TunedOptions add_tuned_settings(CommandSettings& settings, const Command& command) {
  const auto has_value = [&](const std::string& name) {
    const Flag* const flag = command.find("--" + name);
    return flag == nullptr || flag->is_given || settings.contains(name) ||
           is_excluded(command, *flag);
  };
  if (has_value("no-tuned") || command.given("--tune") || command.given("--synthetic") ||
      rank_leader() != nullptr)
    return {};
  const Words names = named_models(settings, command);
  TunedOptions added;
  if (names.size() > 1) return added;  // several models have no options in common
  try {
    for (const auto& [option, value] : remembered_options(find_model(names.front())))
      if (!has_value(option) && !(option == "threads-prefill" && has_value("threads")))
        added[option] = value;
  } catch (const std::exception&) {  // opening the model reports the error
    return {};
  }
  for (const auto& [option, value] : added) settings[option] = {{value}, tuned_path()};
  return added;
}

}  // namespace cria::tools
