// `cria list`: models that are on this machine.
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct ListOptions {
  std::string name;
  bool paths = false, json = false;
};

std::string list_json(const std::vector<KnownModel>& models) {
  auto list = Json::array();
  for (const KnownModel& model : models)
    list.push_back({{"name", model.name},
                    {"place", model.place},
                    {"bytes", model.bytes},
                    {"path", model.path}});
  return json_text(list);
}

std::string list_table(const std::vector<KnownModel>& models, bool paths) {
  Table table(paths ? std::vector<std::string>{"name", ">size", "place", "file"}
                    : std::vector<std::string>{"name", ">size", "place"});
  for (const KnownModel& model : models) {
    std::vector<std::string> row = {without_controls(model.name), human_bytes(model.bytes),
                                    model.place};
    if (paths) row.push_back(without_controls(model.path));
    table.add(std::move(row));
  }
  return table.text(stdout);
}

int run(const ListOptions& options) {
  std::vector<KnownModel> models = known_models();
  if (!options.name.empty()) models = matching_models(models, options.name);
  if (options.json)
    write_stdout(list_json(models));
  else if (!models.empty())
    write_stdout(list_table(models, options.paths));
  else
    print_line("no model here" +
               (options.name.empty() ? "" : " has " + options.name + " in its name"));
  return 0;
}

}  // namespace

void add_list(Program& program) {
  Command& command = program.add("list", "List the models on this machine");
  auto options = std::make_shared<ListOptions>();
  command.add({
      {"NAME", "", "only the models that -m NAME matches", into::text(options->name)},
      {"--paths", "", "also show their files", into::flag(options->paths)},
      {"--json", "", "an array of objects: name, place, bytes, path", into::flag(options->json)},
  });
  command.notes =
      "Looks into the directories of $CRIA_MODELS (separated by colons), and where Hugging Face, "
      "ollama, LM Studio and llama.cpp keep models; changes nothing there. -m takes a name of this "
      "list, or a part of a name that no other has.\n\n"
      "Examples:\n"
      "  CRIA_MODELS=~/models cria list\n"
      "  cria chat -m mistral";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
