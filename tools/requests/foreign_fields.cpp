// Fields of other protocols and engines. Without them the answer would differ, so the error says
// where they belong.
#include <algorithm>

#include "model/file/json.h"
#include "tools/cli/command_line.h"
#include "tools/requests/fields.h"

namespace cria::tools {
namespace {

/// The values that ask for nothing. Empty also means false and 0, and One means 1 as well.
enum class Neutral { Empty, One, MinusOne, True, None };

struct ForeignField {
  std::string_view names;  ///< separated by commas; "guided_*" stands for all names that start so
  std::string_view hint;
  Neutral neutral = Neutral::Empty;
};

constexpr std::string_view kNotHere = "this is not supported here";
constexpr std::string_view kConstrains =
    "use \"response_format\" or \"grammar\" to constrain the answer";
constexpr std::string_view kUnpack = "put its fields into the request itself";
constexpr std::string_view kSystem = R"(put it first among "messages", with the role "system")";

// A protocol that knows a field asks for it, so its row applies to the others.
constexpr ForeignField kForeignFields[] = {
    {"functions,function_call", R"(use "tools", "tool_choice" and "tool_calls")", Neutral::None},
    {"audio,web_search_options", kNotHere, Neutral::None},
    {"n_probs,post_sampling_probs", R"(use "logprobs")"},
    {"prompt_logprobs", R"(/v1/completions has those of its prompt with "logprobs" and "echo")"},
    {"stop_token_ids", R"(use "stop", which takes texts)"},
    {"min_tokens,min_length,min_new_tokens",
     R"("ignore_eos": true makes an answer as long as "max_tokens")"},
    {"bad_words,banned_strings", R"(use "logit_bias", which takes token ids)"},
    {"allowed_token_ids", R"(use "grammar" or "logit_bias")"},
    {"truncate_prompt_tokens", "prompts are not cut; one that is too long is an error"},
    {"include_stop_str_in_output", "answers end before the stop string"},
    {"top_a,smoothing_factor,epsilon_cutoff,eta_cutoff,use_beam_search,min_keep,"
     "logits_processors,no_repeat_ngram_size,penalty_alpha,negative_prompt,safe_prompt,"
     "t_max_predict_ms,n_indent",
     kNotHere},
    {"tfs_z,tfs,length_penalty,encoder_repetition_penalty,guidance_scale,num_beams", kNotHere,
     Neutral::One},
    {"adaptive_target", kNotHere, Neutral::MinusOne},
    {"guided_*,json_schema,structured_outputs,regex,ebnf", kConstrains, Neutral::None},
    {"format,response_json_schema,output_schema,response_mime_type,responseMimeType,"
     "response_schema,responseSchema",
     R"(use "response_format")"},
    {"stop_sequences,stop_sequence,stop_words", R"(use "stop")"},
    {"max_length,max_tokens_to_sample", R"(use "max_tokens")"},
    {"maxTokens,maxOutputTokens,maxCompletionTokens,max-tokens", R"(use "max_tokens")",
     Neutral::None},
    {"temp", R"(use "temperature")", Neutral::None},
    {"do_sample", "\"temperature\": 0 always takes the most likely token", Neutral::True},
    {"typical", R"(use "typical_p")", Neutral::One},
    {"rep_pen", R"(use "repeat_penalty")", Neutral::One},
    {"nsigma", R"(use "top_n_sigma")"},
    {"mirostat_mode", R"(use "mirostat")"},
    {"dynamic_temperature", R"(use "dynatemp_range")"},
    {"random_seed,sampler_seed", R"(use "seed")", Neutral::MinusOne},
    {"ban_eos_token", R"(use "ignore_eos")"},
    {"banned_tokens,custom_token_bans", R"(use "logit_bias")"},
    {"skip_special_tokens", "answers have no control tokens", Neutral::True},
    {"parse_tool_calls", "tool calls are always read", Neutral::True},
    {"topP,topK,minP,repeatPenalty,presencePenalty,frequencyPenalty,stopSequences",
     "names of fields have underscores here, as in \"top_p\"", Neutral::None},
    {"system,system_prompt,instructions,preamble,system_instruction,systemInstruction", kSystem},
    {"messages", "it belongs to /v1/chat/completions"},
    {"prompt", R"(put it into "messages"; /v1/completions takes a prompt)"},
    {"input", R"(put it into "messages"; /v1/responses takes it)"},
    {"contents,chat_history", R"(use "messages")"},
    {"inputs,prompts", R"(use "messages"; /v1/completions takes a "prompt")"},
    {"prompt_token_ids", R"(/v1/completions takes token ids as the "prompt")"},
    {"memory", "put it first in the prompt"},
    {"suffix", "only completions fill in the middle"},
    {"echo", "only completions repeat the prompt"},
    {"n,best_of", "a request has one answer here", Neutral::One},
    {"n_cmpl,num_return_sequences", R"(use "n")", Neutral::One},
    {"documents", "put documents into a message"},
    {"images,image,image_data", "only text is read"},
    {"extra_body,options,parameters,sampling_params,generation_config,generationConfig", kUnpack},
    {"think", R"(use "enable_thinking" or "reasoning_effort")", Neutral::None},
    {"thinking_budget,thinking_budget_tokens,thinking_token_budget,reasoning_budget",
     R"(use "enable_thinking" or "reasoning_effort")", Neutral::MinusOne},
    {"chat_template,template,instruction_template",
     "cria's option --chat-template sets the template"},
    {"lora", "adapters are chosen by the option --lora here"},
};

/// The hint of a row for a request that may have no "messages".
std::string hint_for(const ForeignField& row, const Fields& fields) {
  const std::vector<std::string> known = fields.known();
  const auto knows = [&](std::string_view name) { return std::ranges::count(known, name) != 0; };
  if (row.hint.find("\"messages\"") == std::string_view::npos || knows("messages"))
    return std::string(row.hint);
  if (const std::string path = fields.path(""); !path.empty())  // "options."
    return "it does not belong into \"" + path.substr(0, path.size() - 1) + '"';
  if (row.hint == kSystem)
    for (const char* const name : {"instructions", "system"})
      if (knows(name)) return std::string("use \"") + name + '"';
  if (row.hint == kSystem && knows("custom_id"))
    return R"(a request with "messages" has it first, with the role "system")";
  return knows("input") ? R"(put it into "input")" : R"(put it into "prompt")";
}

bool is_neutral(const Json& value, Neutral neutral) {
  if (neutral == Neutral::None) return false;
  if (neutral == Neutral::True) return value == true;
  if (neutral == Neutral::MinusOne) return value == -1;
  if (value.is_number()) return value == 0 || (neutral == Neutral::One && value == 1);
  return value == false || value == "" || (value.is_structured() && value.empty());
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
  const std::string hint = hint_for(*row, fields);  // before find(), which makes the name known
  const Json* const value = fields.find(name);
  if (value != nullptr && !is_neutral(*value, row->neutral))
    refuse_unsupported(fields.path(name.substr(0, 64)), hint);
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
