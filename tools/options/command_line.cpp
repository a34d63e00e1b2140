#include "tools/options/command_line.h"

namespace cria::tools {

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  out.help = option.get_description();
  out.default_value = option.get_default_str();
  if (out.default_value.starts_with('[') && out.default_value.ends_with(']'))  // of a list
    out.default_value = out.default_value.substr(1, out.default_value.size() - 2);
  if (option.get_items_expected_max() == 0) return out;
  out.value = option.get_type_name();
  if (const std::size_t open = out.value.find('{');
      open != std::string::npos) {  // "TEXT:{f16,f32}"
    out.choices =
        CLI::detail::split(out.value.substr(open + 1, out.value.find('}') - open - 1), ',');
    out.value = CLI::detail::join(out.choices, "|");
  }
  if (!out.names.empty()) return out;
  out.value = option.get_name();
  out.list = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  return out;
}

std::string OptionDescription::joined_names() const { return CLI::detail::join(names, ", "); }

std::vector<CommandDescription> describe_commands(const CLI::App& app) {
  std::vector<CommandDescription> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandDescription description{
        command->get_name(), command->get_description(), command->get_footer(), {}};
    for (const CLI::Option* option : command->get_options())
      description.options.push_back(describe_option(*option));
    commands.push_back(std::move(description));
  }
  return commands;
}

CLI::App* find_command(const CLI::App& app, const std::string& name) {
  try {
    return app.get_subcommand(name);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

}  // namespace cria::tools
