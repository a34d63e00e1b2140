#include "tools/options/settings.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "tools/options/nearest.h"

namespace cria::tools {
namespace {

constexpr std::string_view kPreset = "preset";
constexpr std::size_t kMaxBytes = 64 * 1024;
// The parser goes through keys of many parts by recursion. No text of 64 KiB has so many full
// stops.
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

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw("--" + name);
}

/// The long name that stands for the option in files and variables; "" where nothing does.
std::string setting_name(const CLI::App& command, const CLI::Option& option) {
  if (option.get_positional() || option.get_lnames().empty() || &option == command.get_help_ptr())
    return "";
  return option.get_lnames().front();
}

/// What a preset may hold: how an answer is drawn, and the system message.
bool belongs_to_preset(const CLI::Option& option) {
  return option.get_group() == "Sampling" || option.check_lname("system");
}

std::vector<std::string> keys_of(const CLI::App& app, const std::string& section) {
  std::vector<std::string> keys;
  for (const CLI::App* command : commands_of(app)) {
    const bool is_preset = section.starts_with(std::string(kPreset) + ".");
    if (!section.empty() && !is_preset && command->get_name() != section) continue;
    for (const CLI::Option* option : command->get_options())
      if (const std::string name = setting_name(*command, *option);
          !name.empty() && (!is_preset || belongs_to_preset(*option)))
        keys.push_back(name);
  }
  return keys;
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

/// Whether a flag is wanted; nothing where the setting says neither.
std::optional<bool> flag_value(const Setting& setting) {
  constexpr std::string_view kOff[] = {"0", "false", "no", "off", "n", "f", "disable"},
                             kOn[] = {"1", "true", "yes", "on", "y", "t", "enable"};
  const std::string word =
      setting.values.size() == 1 ? CLI::detail::to_lower(setting.values.front()) : std::string();
  if (std::ranges::find(kOff, word) != std::end(kOff)) return false;
  if (std::ranges::find(kOn, word) != std::end(kOn)) return true;
  return std::nullopt;
}

/// Whether it says that a flag is not wanted, as nothing at all does. Throws a usage error for what
/// says neither.
bool turns_off(const CLI::Option& option, const Setting& setting) {
  if (!is_flag(option)) return false;
  if (const std::optional<bool> wanted = flag_value(setting)) return !*wanted;
  throw CLI::ValidationError("--" + option.get_lnames().front(),
                             "expected true or false, got " +
                                 CLI::detail::join(setting.values, ", ") + " (from " +
                                 setting.source + ")");
}

/// 0 and 1 turn flags off and on, and are numbers, too.
bool is_number(const Setting& setting) {
  return setting.values.size() == 1 &&
         (setting.values.front() == "0" || setting.values.front() == "1");
}

/// Whether a setting for all subcommands cannot be meant for this one: here the name is a flag,
/// elsewhere it takes a value, and this is one.
bool is_for_others(const CLI::App& command, const CLI::Option& option, const Setting& setting) {
  if (!is_flag(option) || (flag_value(setting) && !is_number(setting))) return false;
  const std::string name = setting_name(command, option);
  return std::ranges::any_of(commands_of(*command.get_parent()), [&](const CLI::App* other) {
    const CLI::Option* found = find_option(*other, name);
    return found != nullptr && !is_flag(*found) && setting_name(*other, *found) == name;
  });
}

/// As it would be typed.
std::string typed_text(const toml::node& value, const std::string& key) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
  if (const auto* number = value.as_floating_point()) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, number->get()).ptr};
  }
  throw CLI::ValidationError(key, "expected a text, a number, true or false, or an array of them");
}

std::vector<std::string> typed_texts(const toml::node& value, const std::string& key) {
  if (!value.is_array()) return {typed_text(value, key)};
  std::vector<std::string> texts;
  for (const toml::node& element : *value.as_array()) texts.push_back(typed_text(element, key));
  return texts;
}

/// What stands in a table and in those inside of it. Throws a usage error for a key that no
/// subcommand has.
void add_table(const CLI::App& app, const std::string& section, const toml::table& table,
               std::map<std::string, ConfigFile::Values>& sections) {
  const std::vector<std::string> keys = keys_of(app, section);
  const bool known = !keys.empty() || section == kPreset;
  if (!known) throw CLI::ValidationError("[" + section + "]", "is no command, nor a preset");
  for (const auto& [key, value] : table) {
    std::string name(key.str());
    if (const toml::table* const inner = value.as_table()) {
      add_table(app, section.empty() ? name : section + "." + name, *inner, sections);
      continue;
    }
    std::ranges::replace(name, '_', '-');
    const std::string place = section.empty() ? name : "[" + section + "] " + name;
    if (std::ranges::find(keys, name) == keys.end())
      throw CLI::ValidationError(place, "is no option" + suggestion(name, keys));
    if (std::vector<std::string> texts = typed_texts(value, place); !texts.empty())
      sections[section][name] = std::move(texts);
  }
}

/// The bytes of a file, one more than may be read at most; nothing where it cannot be opened. Each
/// file is read once: what comes through a pipe comes only once.
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
  if (in.bad()) throw CLI::ValidationError(path, "cannot be read");
  read.resize(static_cast<std::size_t>(in.gcount()));
  return bytes = std::move(read);
}

/// What may help with an error of the parser; "" for nothing.
std::string hint(std::string_view toml, std::string_view problem) {
  const auto says = [&](std::string_view words) {
    return problem.find(words) != std::string_view::npos;
  };
  if (says("existing string 'preset.") || says("existing table 'preset'") ||
      (says("existing string as dotted key") && toml.find("preset.") != std::string_view::npos))
    return " (where there is a section [preset.NAME], TOML allows preset = \"NAME\" only in a "
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
  return in_value && unexpected ? " (put a text in quotes)" : "";
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
  throw CLI::ValidationError("--preset", "there is no preset " + name + suggestion(name, names) +
                                             " (there are: " + CLI::detail::join(names, ", ") +
                                             ")");
}

struct Source {
  Setting setting;
  bool for_all = true;  ///< subcommands
};

/// What environment and file say under a name, what is worth most first.
std::vector<Source> sources_of(const std::string& name, const CLI::App& command,
                               const ConfigFile& file) {
  std::vector<Source> sources;
  const std::string variable = environment_name(name);
  if (const std::string value = environment(variable.c_str()); !value.empty())
    sources.push_back({{{value}, variable}});
  for (const std::string& section : {command.get_name(), std::string()})
    if (const ConfigFile::Values* values = file.section(section);
        values != nullptr && values->contains(name))
      sources.push_back(
          {{values->at(name), file.path() + (section.empty() ? "" : " [" + section + "]")},
           section.empty()});
  return sources;
}

}  // namespace

std::string ConfigFile::default_path() {
  if (const std::string named = environment("CRIA_CONFIG"); !named.empty()) return named;
  if (const std::string config = environment("XDG_CONFIG_HOME"); config.starts_with('/'))
    return config + "/cria/config.toml";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.config/cria/config.toml";
}

ConfigFile ConfigFile::read(const CLI::App& app, const std::string& path) {
  ConfigFile file;
  file.path_ = path;
  if (path.empty()) return file;
  const std::optional<std::string>& bytes = file_bytes(path);
  if (!bytes) {
    if (!environment("CRIA_CONFIG").empty())
      throw CLI::ValidationError(path, "the file that CRIA_CONFIG names cannot be opened");
    return file;
  }
  file.found_ = true;
  if (bytes->size() > kMaxBytes)
    throw CLI::ValidationError(path, "a configuration file has at most 64 KiB");
  if (std::ranges::count(*bytes, '.') > kMaxDots)
    throw CLI::ValidationError(path, "more than " + std::to_string(kMaxDots) + " dots");
  try {
    add_table(app, "", toml::parse(std::string_view(*bytes)), file.sections_);
  } catch (const toml::parse_error& problem) {
    const std::string what(problem.description());
    throw CLI::ValidationError(path, "line " + std::to_string(problem.source().begin.line) + ": " +
                                         what + hint(*bytes, what));
  } catch (const CLI::ParseError& problem) {
    throw CLI::ValidationError(path, problem.what());
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

bool takes_settings(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(), [&](const CLI::Option* option) {
    return !setting_name(command, *option).empty();
  });
}

std::vector<std::string> builtin_preset_names() {
  std::vector<std::string> names;
  for (const BuiltinPreset& preset : kBuiltin)
    if (names.empty() || names.back() != preset.name) names.emplace_back(preset.name);
  return names;
}

void add_preset_options(CLI::App& app) {
  const std::vector<std::string> names = builtin_preset_names();
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const CLI::Option* temp = find_option(*command, "temp");
    if (temp == nullptr || find_option(*command, std::string(kPreset)) != nullptr) continue;
    command
        ->add_option_function<std::string>(
            "--preset", [](const std::string&) {},
            "sampling and system message by name: " + CLI::detail::join(names, ", ") +
                ", or a section [preset.NAME] of the configuration file")
        ->type_name("NAME")
        ->group(temp->get_group());
  }
}

CommandSettings settings_for(const CLI::App& command, const std::set<const CLI::Option*>& given,
                             const std::string& preset, const ConfigFile& file) {
  CommandSettings settings;
  std::string wanted = preset;
  if (wanted.empty() && find_option(command, std::string(kPreset)) != nullptr)
    if (const auto found = sources_of(std::string(kPreset), command, file); !found.empty())
      wanted = found.front().setting.values.front();
  const ConfigFile::Values of_preset =
      wanted.empty() ? ConfigFile::Values{} : preset_values(wanted, file);

  for (const CLI::Option* option : command.get_options()) {
    const std::string name = setting_name(command, *option);
    const std::set<CLI::Option*> excluded = option->get_excludes();
    if (name.empty() || given.contains(option) ||
        std::ranges::any_of(excluded,
                            [&](const CLI::Option* other) { return given.contains(other); }))
      continue;
    std::optional<Setting> setting;
    if (const auto found = of_preset.find(name);
        found != of_preset.end() && belongs_to_preset(*option))
      setting = Setting{found->second, "preset " + wanted};
    for (Source& source : sources_of(name, command, file))
      if (!setting && !(source.for_all && is_for_others(command, *option, source.setting)))
        setting = std::move(source.setting);
    if (setting && !turns_off(*option, *setting)) settings[name] = std::move(*setting);
  }
  std::erase_if(settings, [&](const auto& setting) {
    return std::ranges::any_of(
        find_option(command, setting.first)->get_needs(), [&](const CLI::Option* other) {
          return !given.contains(other) && !settings.contains(setting_name(command, *other));
        });
  });
  return settings;
}

namespace {

std::set<const CLI::Option*>& set_by_settings() {
  static std::set<const CLI::Option*> options;
  return options;
}

}  // namespace

bool is_typed(const CLI::Option& option) {
  return option.count() > 0 && !set_by_settings().contains(&option);
}

void apply_settings(CLI::App& command, const CommandSettings& settings) {
  for (const auto& [name, setting] : settings) {
    CLI::Option* option = command.get_option("--" + name);
    if (option->get_excludes().empty() ||
        std::ranges::none_of(option->get_excludes(),
                             [](const CLI::Option* other) { return other->count() > 0; })) {
      option->add_result(setting.values);
      set_by_settings().insert(option);
    }
  }
}

std::string with_source(const std::string& message, const CommandSettings& settings) {
  for (const auto& [name, setting] : settings)
    if (message.starts_with("--" + name + ":")) return message + " (from " + setting.source + ")";
  return message;
}

}  // namespace cria::tools
