// Requests for decisions, in both forms, and the text of their questions.
#include <algorithm>

#include "model/file/json.h"
#include "tools/serve/api/decisions.h"
#include "tools/serve/api/equal_request.h"
#include "tools/serve/api/protocols.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_value;
using Kind = DecisionQuestion::Kind;

constexpr std::size_t kMaxQuestions = 400, kMinOptions = 2, kMaxOptions = 255;

void check_count(std::size_t count, const std::string& path, std::size_t min, std::size_t max,
                 const char* what) {
  if (count >= min && count <= max) return;
  const std::string most = std::to_string(max);
  refuse_value(path, std::to_string(min) + " to " + most + " " + what, count);
}

/// Returns a string as it is, other JSON as text without blanks.
std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : exact_json_text(json);
}

/// Returns a text that may be null or absent.
std::string optional_text(const Fields& fields, const std::string& name) {
  return fields.text(name).value_or("");
}

/// Returns the array of options.
const Json& option_list(const Fields& fields, const char* name) {
  (void)fields.require(name, "an array of 2 to 255 options");
  const Json& list = *fields.array(name);
  check_count(list.size(), fields.path(name), kMinOptions, kMaxOptions, "options");
  return list;
}

std::vector<DecisionOption> read_choices(const Fields& fields) {
  std::vector<DecisionOption> options;
  const Json& list = option_list(fields, "choices");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Fields choice(list[i], element_path(fields.path("choices"), i));
    const Json& value = choice.require("value", "a string, true or false");
    if (!value.is_string() && !value.is_boolean())
      refuse_type(choice.path("value"), "a string, true or false", value);
    if (std::ranges::count(options, value, &DecisionOption::value) != 0)
      refuse_value(fields.path("choices"), "values that differ", value);
    options.push_back({value, optional_text(choice, "description")});
  }
  return options;
}

std::vector<DecisionOption> read_levels(const Fields& fields) {
  std::vector<DecisionOption> options;
  const Json& list = option_list(fields, "levels");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Fields level(list[i], element_path(fields.path("levels"), i));
    const std::string label = level.require_text("label");
    options.push_back({label, optional_text(level, "description")});
  }
  return options;
}

std::vector<DecisionOption> yes_and_no(const std::string& yes, const std::string& no) {
  return {{"yes", yes}, {"no", no}};
}

DecisionQuestion read_question(const Fields& fields) {
  DecisionQuestion out;
  const std::string type = fields.require_text("type");
  if (type == "predicate") {
    out.options = yes_and_no("", "");
  } else if (type == "choice") {
    out.kind = Kind::Choice;
    out.options = read_choices(fields);
  } else if (type == "score") {
    out.kind = Kind::Score;
    out.options = read_levels(fields);
  } else {
    refuse_value(fields.path("type"), R"("predicate", "choice" or "score")", type);
  }
  if (const auto name = fields.text("name")) out.name = *name;
  out.instructions = text_of(fields.require("instructions", "a string or other JSON"));
  return out;
}

/// Reads the options of systemone: named descriptions, each a string or null.
std::vector<DecisionOption> read_criteria(const Fields& fields) {
  const Fields criteria(fields.require("criteria", "an object of 2 to 255 options"),
                        fields.path("criteria"));
  check_count(criteria.json().size(), fields.path("criteria"), kMinOptions, kMaxOptions, "options");
  std::vector<DecisionOption> options;
  for (const auto& [option, description] : criteria.json().items()) {
    if (!description.is_null() && !description.is_string())
      refuse_type(criteria.path(printable(option.substr(0, 64))), "a string or null", description);
    options.push_back({option, description.is_null() ? "" : description.get<std::string>()});
  }
  return options;
}

std::vector<DecisionOption> read_scale(const Fields& fields) {
  std::vector<DecisionOption> options;
  const Json& list = option_list(fields, "criteria");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string())
      refuse_type(element_path(fields.path("criteria"), i), "a string", list[i]);
    options.push_back({list[i], ""});
  }
  return options;
}

DecisionQuestion read_systemone_question(const Fields& fields) {
  DecisionQuestion out;
  const std::string type = fields.require_text("type");
  if (type == "noul") {
    const Json* const json = fields.object("criteria");
    const Json none = Json::object();
    const Fields criteria(json != nullptr ? *json : none, fields.path("criteria"));
    out.options = yes_and_no(optional_text(criteria, "true"), optional_text(criteria, "false"));
  } else if (type == "choice") {
    out.kind = Kind::Choice;
    out.options = read_criteria(fields);
  } else if (type == "score") {
    out.kind = Kind::Score;
    out.options = read_scale(fields);
  } else if (type == "box") {
    tools::refuse_unsupported(fields.path("type"), "boxes need a model that sees");
  } else {
    refuse_value(fields.path("type"), R"("noul", "choice" or "score")", type);
  }
  out.instructions = text_of(fields.require("instructions", "a string or other JSON"));
  return out;
}

DecisionRequest begin_request() {
  DecisionRequest out;
  out.conversation.body = Json::object();
  return out;
}

}  // namespace

DecisionRequest read_decisions_request(const Json& json, std::uint64_t scope,
                                       ResponseStore& store) {
  const Fields body(json);
  DecisionRequest out = begin_request();
  read_response_input(body, scope, store, out.conversation, true);
  (void)body.require("questions", "an array of 1 to 400 questions");
  const Json& questions = *body.array("questions");
  check_count(questions.size(), "questions", 1, kMaxQuestions, "questions");
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::string path = element_path("questions", i);
    out.questions.push_back(read_question(Fields(questions[i], path)));
    out.questions.back().path = path;
  }
  copy_own_fields(body, out.conversation);
  return out;
}

DecisionRequest read_systemone_request(const Json& json) {
  const Fields body(json);
  DecisionRequest out = begin_request();
  out.systemone = true;
  const Json& state = body.require("state", "a string, an object or an array");
  if (!state.is_string() && !state.is_structured())
    refuse_type("state", "a string, an object or an array", state);
  MessageList messages(out.conversation, "state");
  messages.add({{"role", "user"}, {"content", text_of(state)}}, "state");
  const Fields questions(body.require("questions", "an object of 1 to 400 questions"), "questions");
  check_count(questions.json().size(), "questions", 1, kMaxQuestions, "questions");
  for (const auto& [name, question] : questions.json().items()) {
    const std::string path = questions.path(printable(name.substr(0, 64)));
    out.questions.push_back(read_systemone_question(Fields(question, path)));
    out.questions.back().name = name;
    out.questions.back().path = path;
  }
  copy_own_fields(body, out.conversation);
  return out;
}

std::string decision_label(std::size_t option, std::size_t count) {
  const auto letter = [](std::size_t i) { return std::string(1, static_cast<char>('A' + i)); };
  return count <= 26 ? letter(option) : letter(option / 26) + letter(option % 26);
}

std::string decision_text(const DecisionQuestion& question) {
  std::string text = question.instructions + "\n\n";
  for (std::size_t i = 0; i < question.options.size(); ++i) {
    const auto& [value, description] = question.options[i];
    text += decision_label(i, question.options.size()) + ") " + text_of(value);
    if (!description.empty()) text += ": " + description;
    text += "\n";
  }
  return text + "\nAnswer with one letter.";
}

}  // namespace cria::serve
