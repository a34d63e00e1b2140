#include "tools/serve/api/completion_request.h"

#include "tools/options/answer_fields.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_unsupported;
using tools::refuse_value;

constexpr std::int64_t kMaxChoices = 16;
constexpr std::size_t kMaxPrompts = 2048;

void read_choices(const Fields& body, CompletionRequest& out) {
  out.choices = static_cast<std::size_t>(body.integer("n", 1, kMaxChoices).value_or(1));
  const auto best_of = body.integer("best_of", 1);
  if (best_of && *best_of > static_cast<std::int64_t>(out.choices))
    refuse_unsupported("best_of", "more answers than \"n\" are not drawn");
}

void read_stream(const Fields& body, CompletionRequest& out) {
  out.stream = body.flag("stream").value_or(false);
  const RequestJson* const options = body.object("stream_options");
  if (options == nullptr) return;
  if (!out.stream) refuse_value("stream_options", "none without \"stream\": true", *options);
  out.include_usage = Fields(*options, "stream_options").flag("include_usage").value_or(false);
}

CompletionRequest read_common(const Fields& body, const GenerateOptions& defaults,
                              const tools::AnswerFieldsForm& form) {
  CompletionRequest out;
  out.generate = defaults;
  out.model = body.text("model").value_or("");
  tools::reject_unsupported_fields(body);
  tools::read_answer_fields(body, form, out.generate);
  if (!out.generate.sampler.seed) out.generate.sampler.seed = tools::random_request_seed();
  read_choices(body, out);
  read_stream(body, out);
  out.reuse = body.flag("cache_prompt").value_or(true);
  out.constraint = tools::read_constraint_fields(body);
  return out;
}

/// What the template may ask for.
std::string template_variables(const Fields& body, const ToolFields& tools) {
  RequestJson variables = RequestJson::object();
  if (const RequestJson* const more = body.object("chat_template_kwargs")) variables = *more;
  for (const char* key : {"messages", "tools"}) variables.erase(key);
  if (const auto effort = body.text("reasoning_effort")) variables["reasoning_effort"] = *effort;
  if (tools.offered()) variables["tools"] = tools.tools;
  return variables.empty() ? "" : variables.dump();
}

}  // namespace

std::vector<TokenId> read_ids(const RequestJson& list, const std::string& path,
                              std::size_t n_vocab) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    ids.push_back(static_cast<TokenId>(tools::read_integer(
        list[i], element_path(path, i), 0, static_cast<std::int64_t>(n_vocab) - 1)));
  return ids;
}

std::vector<PromptText> read_prompts(const Fields& body, const std::string& name,
                                     std::size_t n_vocab, bool& several) {
  constexpr const char* kExpected =
      "a string, an array of strings, an array of token ids, or an array of such arrays";
  const RequestJson& value = body.require(name, kExpected);
  several = false;
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) refuse_type(name, kExpected, value);
  if (value.empty()) refuse_value(name, kExpected, value);
  if (value.front().is_number()) return {read_ids(value, name, n_vocab)};
  if (value.size() > kMaxPrompts) refuse_value(name, "at most 2048 prompts", value.size());
  several = true;
  std::vector<PromptText> prompts;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const RequestJson& one = value[i];
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

CompletionRequest read_chat_request(const RequestJson& json, const GenerateOptions& defaults,
                                    std::size_t n_vocab) {
  const Fields body(json);
  std::vector<ChatMessage> messages = read_messages(body);
  CompletionRequest out = read_common(body, defaults, {tools::LogprobsForm::Chat, 1, n_vocab});
  out.messages = std::move(messages);
  out.tools = read_tool_fields(body);
  if (out.tools.offered() && out.constraint.kind != ConstraintFields::Kind::None)
    refuse_unsupported("tools", "they cannot stand beside a \"" +
                                    out.constraint.path.substr(0, out.constraint.path.find('.')) +
                                    "\"; \"tool_choice\": \"none\" leaves them out");
  out.variables = template_variables(body, out.tools);
  return out;
}

CompletionRequest read_completion_request(const RequestJson& json, const GenerateOptions& defaults,
                                          std::size_t n_vocab) {
  const Fields body(json);
  bool several = false;
  std::vector<PromptText> prompts = read_prompts(body, "prompt", n_vocab, several);
  GenerateOptions short_defaults = defaults;
  if (short_defaults.max_tokens < 0) short_defaults.max_tokens = 16;
  CompletionRequest out =
      read_common(body, short_defaults, {tools::LogprobsForm::Completion, 0, n_vocab});
  out.chat = false;
  out.prompts = std::move(prompts);
  out.one_prompt = !several;
  if (const RequestJson* const tools = body.array("tools"); tools != nullptr && !tools->empty())
    refuse_unsupported("tools", "a prompt has no template that could show them");
  out.echo = body.flag("echo").value_or(false);
  if (out.echo) out.generate.prompt_logprobs = out.generate.logprobs;
  return out;
}

}  // namespace cria::serve
