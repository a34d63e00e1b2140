#include "tools/requests/request.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/file/json.h"
#include "model/plural.h"

namespace cria::tools {
namespace {

constexpr std::int64_t kMaxChoices = 16;
constexpr std::size_t kMaxPrompts = 2048;

void read_choices(const Fields& body, CompletionRequest& out) {
  out.choices = static_cast<std::size_t>(body.integer("n", 1, kMaxChoices).value_or(1));
  const auto best_of = body.integer("best_of", 1);
  if (best_of && *best_of > static_cast<std::int64_t>(out.choices))
    refuse_unsupported("best_of", "at most \"n\" answers are generated");
}

void read_stream(const Fields& body, CompletionRequest& out) {
  out.stream = body.flag("stream").value_or(false);
  const Json* const options = body.object("stream_options");
  if (options == nullptr) return;
  if (!out.stream) refuse_value("stream_options", "nothing without \"stream\": true", *options);
  out.include_usage = Fields(*options, "stream_options").flag("include_usage").value_or(false);
}

/// Reads "lora": scales of some adapters, 0 for others.
std::vector<float> read_adapters(const Fields& body, std::size_t n) {
  constexpr double kMaxScale = 1000;
  const Json* const list = body.array("lora");
  if (list == nullptr) return {};
  std::vector<float> scales(n);
  std::vector<bool> given(n);
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Fields one((*list)[i], element_path("lora", i));
    const auto id = one.integer("id", 0);
    const auto scale = one.number("scale", -kMaxScale, kMaxScale);
    if (!id) refuse_missing(one.path("id"), "the number of an adapter");
    if (!scale) refuse_missing(one.path("scale"), "a number");
    const auto index = static_cast<std::size_t>(*id);
    if (index >= n)
      refuse_value(one.path("id"), "the number of one of " + counted(n, "adapter") + ", from 0",
                   *id);
    if (given[index]) refuse_value("lora", "each id once", *list);
    given[index] = true;
    scales[index] = static_cast<float>(*scale);
  }
  return scales;
}

CompletionRequest read_served(const Fields& body, const GenerateOptions& defaults,
                              const AnswerFieldsForm& form) {
  CompletionRequest out = read_common(body, defaults, form);
  if (!out.generate.sampler.seed) out.generate.sampler.seed = random_request_seed();
  (void)body.integer("id_slot", -1);
  (void)read_keep_alive(body);
  for (const char* name : {"user", "metadata", "store", "service_tier", "prediction",
                           "safety_identifier", "prompt_cache_key"})
    (void)body.has(name);  // known, without effect
  out.adapters = read_adapters(body, *form.adapters);
  read_choices(body, out);
  read_stream(body, out);
  out.timings_per_token = body.flag("timings_per_token").value_or(false);
  return out;
}

/// Sets the switch for thinking. The first field wins.
void set_thinking(CompletionRequest& out, bool on, std::string path) {
  if (out.think) return;
  out.think = on;
  out.think_path = std::move(path);
}

/// An effort of "none" turns thinking off; others are the template's business.
void read_effort(const Fields& fields, std::string_view name, CompletionRequest& out,
                 std::optional<std::string>& effort) {
  const auto value = fields.text(name);
  if (value == "none")
    set_thinking(out, false, fields.path(name));
  else if (value && !effort)
    effort = value;
}

/// Reads the names under which clients ask for thinking. Returns the effort for the template.
std::optional<std::string> read_thinking(const Fields& body, CompletionRequest& out) {
  std::optional<std::string> effort;
  read_effort(body, "reasoning_effort", out, effort);
  if (const Json* const json = body.object("reasoning")) {
    const Fields reasoning(*json, "reasoning");
    read_effort(reasoning, "effort", out, effort);
    if (const auto on = reasoning.flag("enabled")) set_thinking(out, *on, "reasoning.enabled");
  }
  if (const auto on = body.flag("enable_thinking")) set_thinking(out, *on, "enable_thinking");
  if (const Json* const json = body.object("thinking")) {
    const Fields thinking(*json, "thinking");
    const std::string type = thinking.require_text("type");
    if (type != "enabled" && type != "disabled" && type != "adaptive")
      refuse_value("thinking.type", "\"enabled\", \"disabled\" or \"adaptive\"", type);
    set_thinking(out, type != "disabled", "thinking");
  }
  return effort;
}

/// DeepSeek and Mistral mark the last message itself by "prefix", Qwen and Moonshot by "partial".
void read_continuation(const Fields& body, CompletionRequest& out) {
  out.continue_last = body.flag("continue_final_message").value_or(false);
  const Json& list = *body.array("messages");
  const Fields marked(list.back(), element_path("messages", list.size() - 1));
  for (const char* const name : {"prefix", "partial"})
    if (marked.flag(name).value_or(false)) out.continue_last = true;
  const bool begins = body.flag("add_generation_prompt").value_or(true);
  if (!out.continue_last && !begins)
    refuse_unsupported("add_generation_prompt",
                       "false is for \"continue_final_message\": true; /v1/completions continues a "
                       "text");
  if (!out.continue_last) return;
  const ChatMessage& last = out.messages.back();
  if (last.role != "assistant" || last.json.find("\"tool_calls\"") != std::string::npos)
    refuse_value("continue_final_message", "a last message of the assistant, without tool calls",
                 true);
}

std::string template_variables(const Fields& body, CompletionRequest& out) {
  Json variables = Json::object();
  const auto effort = read_thinking(body, out);
  if (out.think)
    for (const char* name : {"enable_thinking", "thinking"}) variables[name] = *out.think;
  if (effort) variables["reasoning_effort"] = *effort;
  variables.update(template_arguments(body));
  if (out.tools.offered()) variables["tools"] = out.tools.tools;
  return variables.empty() ? "" : exact_json_text(variables);
}

/// An empty suffix is as good as none.
void read_suffix(const Fields& body, CompletionRequest& out) {
  const std::string suffix = body.text("suffix").value_or("");
  if (suffix.empty()) return;
  const auto* const prefix = std::get_if<std::string>(&out.prompts.front());
  if (prefix == nullptr || !out.one_prompt)
    refuse_value("prompt", "one string beside \"suffix\"", body.json()["prompt"]);
  if (out.echo) refuse_unsupported("echo", "it cannot be combined with \"suffix\"");
  out.fill = {*prefix, suffix};
}

/// Returns the seconds of "1h30m", "300ms" or "-1"; nullopt for other texts.
std::optional<double> duration_of(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const Json number = try_json(text.substr(0, digits));
    if (!number.is_number() || digits > 15) return std::nullopt;
    text.remove_prefix(digits);
    const std::size_t letters = std::min(text.find_first_of("0123456789."), text.size());
    const auto* const unit = std::ranges::find(kUnits, text.substr(0, letters),
                                               &std::pair<std::string_view, double>::first);
    const bool bare = letters == 0 && text.empty();
    if (!bare && unit == std::end(kUnits)) return std::nullopt;
    seconds += number.get<double>() * (bare ? 1 : unit->second);
    text.remove_prefix(letters);
  }
  return negative ? -seconds : seconds;
}

}  // namespace

CompletionRequest read_common(const Fields& body, const GenerateOptions& defaults,
                              const AnswerFieldsForm& form) {
  CompletionRequest out;
  out.generate = defaults;
  out.model = body.text("model").value_or("");
  read_answer_fields(body, form, out.generate);
  out.reuse = body.flag("cache_prompt").value_or(true);
  out.constraint = read_constraint_fields(body);
  return out;
}

Json template_arguments(const Fields& body) {
  const Json* const given = body.object("chat_template_kwargs");
  Json arguments = given != nullptr ? *given : Json::object();
  for (const char* key : {"messages", "tools"}) arguments.erase(key);
  return arguments;
}

std::optional<double> read_keep_alive(const Fields& fields) {
  constexpr const char* kExpected = "seconds, or a duration such as \"5m\" or \"1h30m\"";
  const Json* const value = fields.find("keep_alive");
  if (value == nullptr) return std::nullopt;
  const std::string path = fields.path("keep_alive");
  if (value->is_number()) return value->get<double>();
  if (!value->is_string()) refuse_type(path, kExpected, *value);
  const auto seconds = duration_of(value->get_ref<const std::string&>());
  if (!seconds) refuse_value(path, kExpected, *value);
  return seconds;
}

void add_ignored(std::string& list, const std::vector<std::string>& names,
                 const std::string& prefix) {
  constexpr std::size_t kLongest = 40, kMost = 8;
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  for (const std::string& name : names) {
    const std::size_t count =
        list.empty() ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(list, ','));
    const std::string whole = prefix + name;
    const bool known = ("," + list + ",").find("," + whole + ",") != std::string::npos;
    if (known || name.empty() || name.size() > kLongest || count == kMost ||
        !std::ranges::all_of(name, is_plain))
      continue;
    list += (list.empty() ? "" : ",") + whole;
  }
}

std::string ignored_fields(const Fields& fields) {
  for (const char* name : {"model", "keep_alive", "user"}) (void)fields.has(name);
  std::string list;
  add_ignored(list, fields.unknown());
  return list;
}

std::vector<TokenId> read_ids(const Json& list, const std::string& path, std::size_t n_vocab) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    ids.push_back(static_cast<TokenId>(
        read_integer(list[i], element_path(path, i), 0, static_cast<std::int64_t>(n_vocab) - 1)));
  return ids;
}

std::vector<PromptText> read_prompts(const Fields& body, const std::string& name,
                                     std::size_t n_vocab, bool& several) {
  constexpr const char* kExpected =
      "a string, an array of strings, an array of token ids, or an array of such arrays";
  const Json& value = body.require(name, kExpected);
  several = false;
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) refuse_type(name, kExpected, value);
  if (value.empty()) refuse_value(name, kExpected, value);
  if (value.front().is_number()) return {read_ids(value, name, n_vocab)};
  if (value.size() > kMaxPrompts) refuse_value(name, "at most 2048 prompts", value.size());
  several = true;
  std::vector<PromptText> prompts;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json& one = value[i];
    const std::string path = element_path(name, i);
    if (one.type() != value.front().type() || !(one.is_string() || one.is_array()))
      refuse_type(path, value.front().is_array() ? "an array of token ids" : "a string", one);
    if (one.is_string()) {
      prompts.emplace_back(one.get<std::string>());
    } else {
      if (one.empty()) refuse_value(path, "an array of token ids", one);
      prompts.emplace_back(read_ids(one, path, n_vocab));
    }
  }
  return prompts;
}

CompletionRequest read_chat_request(const Json& json, const GenerateOptions& defaults,
                                    std::size_t n_vocab, std::size_t n_adapters) {
  const Fields body(json);
  std::vector<ChatMessage> messages = read_messages(body);
  CompletionRequest out = read_served(body, defaults, {LogprobsForm::Chat, 1, n_vocab, n_adapters});
  out.messages = std::move(messages);
  out.tools = read_tool_fields(body);
  if (out.tools.offered() && out.constraint.kind == ConstraintFields::Kind::Grammar)
    refuse_unsupported("tools",
                       "they cannot be combined with \"grammar\"; \"tool_choice\": \"none\" leaves "
                       "them out");
  out.variables = template_variables(body, out);
  read_continuation(body, out);
  out.progress = body.flag("return_progress").value_or(false);
  reject_foreign_fields(body);
  reject_typing_errors(body);
  out.ignored = body.unknown();
  return out;
}

CompletionRequest read_completion_request(const Json& json, const GenerateOptions& defaults,
                                          std::size_t n_vocab, std::size_t n_adapters) {
  const Fields body(json);
  bool several = false;
  std::vector<PromptText> prompts = read_prompts(body, "prompt", n_vocab, several);
  GenerateOptions short_defaults = defaults;
  if (short_defaults.max_tokens < 0) short_defaults.max_tokens = 16;
  CompletionRequest out =
      read_served(body, short_defaults, {LogprobsForm::Completion, 0, n_vocab, n_adapters});
  out.chat = false;
  out.prompts = std::move(prompts);
  out.one_prompt = !several;
  if (const Json* const tools = body.array("tools"); tools != nullptr && !tools->empty())
    refuse_unsupported("tools", "a prompt has no template that could show them");
  out.echo = body.flag("echo").value_or(false);
  if (out.echo) out.generate.prompt_logprobs = out.generate.logprobs;
  if (!body.flag("add_special_tokens").value_or(true))
    refuse_unsupported("add_special_tokens", "a prompt of token ids has no others (see /tokenize)");
  read_suffix(body, out);
  out.progress = body.flag("return_progress").value_or(false);
  reject_foreign_fields(body);
  reject_typing_errors(body);
  out.ignored = body.unknown();
  return out;
}

}  // namespace cria::tools
