#include "tools/report/tuned.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/distribute/leader.h"
#include "model/error.h"
#include "model/file/binary_file.h"
#include "model/plural.h"
#include "tools/options/find_model.h"
#include "tools/report/json.h"
#include "tools/report/machine.h"
#include "tools/terminal/messages.h"

namespace cria::tools {
namespace {

namespace fs = std::filesystem;
using TunedJson = nlohmann::ordered_json;

/// "model.gguf, 619800384 bytes": the same wherever it lies.
std::string key_of_model(const std::string& model) {
  return fs::path(model).filename().string() + ", " + counted(fs::file_size(model), "byte");
}

bool is_tuned_json(const TunedJson& json) {
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
TunedJson read_tuned() {
  std::ifstream in(tuned_path());
  if (!in) return TunedJson::object();
  TunedJson json = TunedJson::parse(in, nullptr, false);
  if (is_tuned_json(json)) return json;
  print_warning(tuned_path() + " is not what cria bench --tune writes, and counts for nothing");
  return TunedJson::object();
}

/// What -m says: typed, else set; "": nothing. Several models (cria bench) have no options in
/// common.
std::string named_model(const CommandSettings& settings, const std::vector<std::string>& words,
                        bool& several) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if ((word == "-m" || word == "--model") && i + 1 < words.size())
      names.push_back(words[++i]);
    else if (word.starts_with("--model="))
      names.push_back(word.substr(8));
    else if (word.starts_with("-m"))
      names.push_back(word.substr(2));
  }
  if (const auto set = settings.find("model"); names.empty() && set != settings.end())
    names = set->second.values;
  several = names.size() > 1;
  return names.empty() ? "" : names.front();
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
  const TunedJson json = read_tuned();
  const auto machine = json.find(machine_label());
  if (machine == json.end()) return options;
  if (const auto found = machine->find(key_of_model(model)); found != machine->end())
    for (const auto& [name, value] : found->items()) options[name] = value.get<std::string>();
  return options;
}

void remember_options(const std::string& model, const TunedOptions& options) {
  const std::string path = tuned_path();
  if (path.empty())
    throw Error("", "there is no directory to remember in: expected $HOME or $XDG_STATE_HOME");
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) throw Error(path, "cannot be written: " + error.message());
  TunedJson json = read_tuned();
  json[machine_label()][key_of_model(model)] = options;
  OutputFile file(path);
  file.write(json_text(json));
  file.finish();
}

TunedOptions add_tuned_settings(CommandSettings& settings, const CLI::App& command,
                                const std::set<const CLI::Option*>& given,
                                const std::vector<std::string>& words) {
  const auto said = [&](const std::string& name) {
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr || given.contains(option) || settings.contains(name)) return true;
    const std::set<CLI::Option*> excluded = option->get_excludes();
    return std::ranges::any_of(excluded, [&](CLI::Option* other) { return given.contains(other); });
  };
  const auto typed = [&](const char* name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return option != nullptr && given.contains(option);
  };
  if (said("no-tuned") || typed("--tune") || typed("--synthetic") || Leader::current() != nullptr)
    return {};
  bool several = false;
  const std::string name = named_model(settings, words, several);
  TunedOptions added;
  if (several) return added;
  try {
    for (const auto& [option, value] : remembered_options(find_model(name)))
      if (!said(option) && !(option == "threads-prefill" && said("threads"))) added[option] = value;
  } catch (const std::exception&) {  // no such model: who wants to open it will say so
    return {};
  }
  for (const auto& [option, value] : added) settings[option] = {{value}, tuned_path()};
  return added;
}

}  // namespace cria::tools
