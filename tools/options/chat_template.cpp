#include "tools/options/chat_template.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/options/input.h"
#include "tools/options/nearest.h"
#include "tools/terminal/messages.h"

namespace cria::tools {
namespace {

using TemplateJson = nlohmann::ordered_json;

// What templates call the switch for thinking.
constexpr const char* kThinkingSwitches[] = {"enable_thinking", "thinking"};

/// For CLI11: what is wrong with it, or "".
std::string object_error(const std::string& text) {
  const TemplateJson json = TemplateJson::parse(text, nullptr, false);
  return json.is_object() ? "" : "expected a JSON object, got " + text;
}

/// An array of tools, or an object that has it as "tools"; each {"type": "function", "function":
/// {…}}, or what stands in there alone.
TemplateJson read_tools(const std::string& path) {
  TemplateJson list = TemplateJson::parse(read_file(path), nullptr, false);
  const std::string name = input_name(path);
  if (list.is_discarded()) throw Error(name, "not JSON");
  if (list.is_object() && list.contains("tools")) list = TemplateJson(list["tools"]);
  if (!list.is_array())
    throw Error(name, std::string("expected an array of tools, got ") + list.type_name());
  for (std::size_t i = 0; i < list.size(); ++i) {
    TemplateJson& tool = list[i];
    if (tool.is_object() && !tool.contains("function") && tool.contains("name"))
      tool = {{"type", "function"}, {"function", TemplateJson(tool)}};
    const bool good = tool.is_object() && tool.contains("function") &&
                      tool["function"].is_object() &&
                      tool["function"].value("name", TemplateJson()).is_string();
    if (!good)
      throw Error(name, "expected {\"type\": \"function\", \"function\": {\"name\": …}}",
                  "tool " + std::to_string(i));
  }
  return list;
}

}  // namespace

void add_template_option(CLI::App& command, std::string& wanted) {
  command
      .add_option("--chat-template", wanted,
                  "Jinja2 file, or the name of a built-in template: " +
                      ChatTemplate::builtin_names() + " (default: the model's own)")
      ->type_name("FILE");
}

std::vector<CLI::Option*> TemplateVariables::add_to(CLI::App& command) {
  CLI::Option* const yes = command.add_flag(
      "--think", think,
      "let the model think before it answers, if its template has a switch for that");
  CLI::Option* const no = command.add_flag(
      "--no-think", no_think,
      "let the model answer without thinking, if its template has a switch for that");
  yes->excludes(no);
  CLI::Option* const how_much =
      command
          .add_option("--reasoning-effort", effort,
                      "how much the model thinks, if its template has that setting")
          ->type_name("LEVEL")
          ->check(CLI::IsMember({"low", "medium", "high"}));
  CLI::Option* const more =
      command
          .add_option("--chat-template-kwargs", others,
                      "further variables for the chat template: a JSON object, for "
                      "example '{\"enable_thinking\": false}'")
          ->type_name("JSON")
          ->check(CLI::Validator(object_error, "", "object"));
  return {yes, no, how_much, more};
}

CLI::Option* add_call_form_option(CLI::App& command, std::string& call_form) {
  return command
      .add_option("--tool-format", call_form,
                  "how the model writes tool calls: " + call_form_names() +
                      " (default: as its template does)")
      ->type_name("NAME")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return call_form_named(name) ? ""
                                         : "expected one of " + call_form_names() + ", got " + name;
          },
          "", "form"));
}

CLI::Option* TemplateVariables::add_offered_to(CLI::App& command) {
  return command
      .add_option(
          "--tools", tools,
          "tools that the model may call: a JSON array in OpenAI's form, [{\"type\": \"function\", "
          "…}] (-: stdin)")
      ->type_name("FILE");
}

std::vector<CLI::Option*> TemplateVariables::add_tools_to(CLI::App& command) {
  return {add_offered_to(command), add_call_form_option(command, call_form)};
}

std::optional<CallForm> TemplateVariables::calls(const ChatTemplate& chat_template,
                                                 const std::string& all) const {
  if (!call_form.empty()) return call_form_named(call_form);
  if (!tools.empty() && chat_template.answer_format(all).calls == CallForm::None)
    throw Error(
        tools,
        "how this model calls tools is not known from its chat template (--tool-format tells it)");
  return std::nullopt;
}

std::string TemplateVariables::over(const std::string& own) const {
  TemplateJson all = own.empty() ? TemplateJson::object() : TemplateJson::parse(own);
  if (!others.empty()) all.update(TemplateJson::parse(others));
  if (!tools.empty()) all["tools"] = read_tools(tools);
  if (think || no_think) {
    for (const char* const name : kThinkingSwitches) all[name] = think;
  }
  if (!effort.empty()) all["reasoning_effort"] = effort;
  return all.empty() ? "" : all.dump();
}

std::string TemplateVariables::note(const ChatTemplate& chat_template) const {
  const bool has_switch = std::ranges::any_of(
      kThinkingSwitches, [&](const char* name) { return chat_template.names(name); });
  if ((think || no_think) && !has_switch)
    return std::string(think ? "--think" : "--no-think") +
           " changes nothing: the chat template has no switch for thinking";
  if (!effort.empty() && !chat_template.names("reasoning_effort"))
    return "--reasoning-effort changes nothing: the chat template does not ask for it";
  return "";
}

std::string TemplateVariables::note_without_template() const {
  const std::pair<bool, const char*> given[] = {{think, "--think"},
                                                {no_think, "--no-think"},
                                                {!effort.empty(), "--reasoning-effort"},
                                                {!others.empty(), "--chat-template-kwargs"},
                                                {!call_form.empty(), "--tool-format"}};
  const auto* const first = std::ranges::find(given, true, &std::pair<bool, const char*>::first);
  if (first == std::end(given)) return "";
  return std::string(first->second) +
         " changes nothing: this model has no chat template (--chat uses a plain one)";
}

std::vector<std::string> builtin_template_names() {
  std::string names = ChatTemplate::builtin_names();
  std::erase(names, ' ');
  return CLI::detail::split(names, ',');
}

ChatTemplate named_template(const std::string& wanted, const TemplateTokens& tokens) {
  if (auto builtin = ChatTemplate::builtin(wanted, tokens)) return *builtin;
  std::error_code error;
  if (wanted != "-" && !std::filesystem::exists(wanted, error))
    throw Error(wanted, "no such file, and no built-in template" +
                            suggestion(wanted, builtin_template_names()));
  return ChatTemplate::parse(read_file(wanted), input_name(wanted), tokens);
}

ChatTemplate choose_template(const std::string& wanted, const Vocabulary& vocabulary) {
  if (wanted.empty()) return ChatTemplate::from_vocabulary(vocabulary);
  return named_template(wanted, TemplateTokens::of(vocabulary));
}

void say_note(std::string& note) {
  if (!note.empty()) print_note(note);
  note.clear();
}

}  // namespace cria::tools
