// Fields of other protocols and engines. Without them the answer would differ, so the error says
// where they belong.
#include <algorithm>

#include "model/file/json.h"
#include "tools/cli/command_line.h"
#include "tools/requests/fields.h"

namespace cria::tools {
namespace {

struct ForeignField {
  std::string_view names;  ///< separated by commas; "guided_*" stands for all names that start so
  std::string_view hint;
  double neutral = 0;   ///< a number that asks for nothing, as 0 does
  bool strict = false;  ///< no value asks for nothing
};

constexpr std::string_view kNotHere = "this is not supported here";
constexpr std::string_view kConstrains =
    "use \"response_format\" or \"grammar\" to constrain the answer";
constexpr std::string_view kUnpack = "put its fields into the request itself";
constexpr std::string_view kSystem = R"(put it first among "messages", with the role "system")";

// A protocol that knows a field asks for it, so its row applies to the others.
constexpr ForeignField kForeignFields[] = {
    {"functions,function_call", R"(use "tools", "tool_choice" and "tool_calls")", 0, true},
    {"audio,web_search_options", kNotHere, 0, true},
    {"n_probs,post_sampling_probs,prompt_logprobs", R"(use "logprobs")"},
    {"top_a,smoothing_factor,epsilon_cutoff,eta_cutoff,use_beam_search,min_tokens,min_keep,"
     "stop_token_ids,bad_words,banned_strings,allowed_token_ids,logits_processors,"
     "truncate_prompt_tokens",
     kNotHere},
    {"tfs_z,length_penalty", kNotHere, 1},
    {"guided_*,json_schema,structured_outputs,regex,ebnf", kConstrains, 0, true},
    {"format,response_json_schema,output_schema", R"(use "response_format")"},
    {"stop_sequences,stop_words", R"(use "stop")"},
    {"max_length,max_tokens_to_sample", R"(use "max_tokens")"},
    {"maxTokens,maxOutputTokens,maxCompletionTokens,max-tokens", R"(use "max_tokens")", 0, true},
    {"temp", R"(use "temperature")", 0, true},
    {"typical", R"(use "typical_p")", 1},
    {"topP,topK,minP,repeatPenalty,presencePenalty,frequencyPenalty,stopSequences",
     "names of fields have underscores here, as in \"top_p\"", 0, true},
    {"system,system_prompt,instructions,preamble", kSystem},
    {"messages", "it belongs to /v1/chat/completions"},
    {"prompt", R"(put it into "messages"; /v1/completions takes a prompt)"},
    {"input", R"(put it into "messages"; /v1/responses takes it)"},
    {"contents,chat_history", R"(use "messages")"},
    {"suffix", "only completions fill in the middle"},
    {"echo", "only completions repeat the prompt"},
    {"n,best_of", "a request has one answer here", 1},
    {"documents", "put documents into a message"},
    {"images", "only text is read"},
    {"extra_body,options", kUnpack},
    {"think", R"(use "enable_thinking" or "reasoning_effort")", 0, true},
    {"chat_template,template", "cria's option --chat-template sets the template"},
    {"lora", "adapters are chosen by the option --lora here"},
};

/// True for values that ask for nothing.
bool is_neutral(const Json& value, double neutral) {
  if (value == false || value == "") return true;
  if (value.is_number()) return value == 0 || value == neutral;
  return value.is_structured() && value.empty();
}

bool names_field(std::string_view names, std::string_view field) {
  for (std::size_t end = 0; !names.empty(); names.remove_prefix(std::min(end + 1, names.size()))) {
    end = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, end);
    if (name.ends_with('*') ? field.starts_with(name.substr(0, name.size() - 1)) : field == name)
      return true;
  }
  return false;
}

/// Refuses a name with one wrong letter. Other unknown names are fields of newer clients.
void reject_typing_error(const Fields& fields, const std::string& name) {
  constexpr std::size_t kShortest = 6, kLongest = 64;  // short names resemble too many others
  if (name.size() < kShortest || name.size() > kLongest) return;
  for (const std::string& known : fields.known())
    if (edit_distance(name, known) == 1 && name != known + "s")  // "models" is another field
      refuse_unsupported(fields.path(name), "unknown field; did you mean \"" + known + "\"?");
}

}  // namespace

void reject_foreign_field(const Fields& fields, std::string_view name) {
  const auto* const row = std::ranges::find_if(
      kForeignFields, [&](const ForeignField& one) { return names_field(one.names, name); });
  if (row == std::end(kForeignFields)) return;
  const Json* const value = fields.find(name);
  if (value != nullptr && (row->strict || !is_neutral(*value, row->neutral)))
    refuse_unsupported(fields.path(name.substr(0, 64)), row->hint);
}

void reject_foreign_fields(const Fields& fields) {
  for (const std::string& name : fields.unknown()) reject_foreign_field(fields, name);
}

void reject_typing_errors(const Fields& fields) {
  const std::vector<std::string> names = fields.unknown();
  constexpr std::size_t kMaxChecked = 64;  // each is compared with all known names
  for (std::size_t i = 0; i < std::min(names.size(), kMaxChecked); ++i)
    reject_typing_error(fields, names[i]);
}

}  // namespace cria::tools
