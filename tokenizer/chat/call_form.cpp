#include "tokenizer/chat/call_form.h"

#include <algorithm>

namespace cria {
namespace {

// As the models' makers document them.
constexpr CallFormFacts kForms[] = {
    {CallForm::Channels, "gpt-oss", "", "", {"<|channel|>", "functions."}},
    {CallForm::Glm,
     "glm",
     "<tool_call>",
     "</tool_call>",
     {"<tool_call>", "<arg_key>"},
     "",
     "",
     false,
     "<arg_value>",
     "</arg_value>"},
    // Around each call stand <tool_call> and </tool_call>, which the models forget at times.
    {CallForm::Coder,
     "qwen3-coder",
     "<function=",
     "</function>",
     {"<tool_call>", "<function="},
     "<tool_call>",
     "</tool_call>",
     false,
     "<parameter=",
     "</parameter>"},
    {CallForm::Seed,
     "seed",
     "<function=",
     "</function>",
     {"<seed:tool_call>", "<function="},
     "<seed:tool_call>",
     "</seed:tool_call>",
     false,
     "<parameter=",
     "</parameter>"},
    {CallForm::Hermes, "hermes", "<tool_call>", "</tool_call>", {"<tool_call>", ""}, "", "", true},
    {CallForm::Mistral, "mistral", "[TOOL_CALLS]", "", {"[TOOL_CALLS]", ""}, "", "", true},
    {CallForm::DeepSeek,
     "deepseek",
     "<｜tool▁call▁begin｜>",
     "<｜tool▁call▁end｜>",
     {"<｜tool▁call▁begin｜>", ""},
     "<｜tool▁calls▁begin｜>",
     "<｜tool▁calls▁end｜>"},
    {CallForm::Granite,
     "granite",
     "<|tool_call|>",
     "<|/tool_call|>",
     {"<|tool_call|>", ""},
     "",
     "",
     true},
    {CallForm::CommandR,
     "command-r",
     "<|START_ACTION|>",
     "<|END_ACTION|>",
     {"<|START_ACTION|>", ""},
     "",
     "",
     true},
    {CallForm::Gemma, "gemma4", "<|tool_call>", "<tool_call|>", {"<|tool_call>", "call:"}},
    {CallForm::Apertus,
     "apertus",
     "<|tools_prefix|>",
     "<|tools_suffix|>",
     {"<|tools_prefix|>", ""},
     "",
     "",
     true},
    {CallForm::Functionary, "functionary", "<function=", "</function>", {"<function=", ""}},
    {CallForm::Llama, "llama3", "<|python_tag|>", "", {"<|python_tag|>", ""}, "", "", true},
    {CallForm::Llama,
     "llama3",
     "<|python_tag|>",
     "",
     {"<|start_header_id|>", "\"parameters\""},
     "",
     "",
     true},
};

}  // namespace

std::span<const CallFormFacts> call_forms() { return kForms; }

const CallFormFacts& call_form_facts(CallForm form) {
  return *std::ranges::find(kForms, form, &CallFormFacts::form);
}

CallForm call_form_of_template(std::string_view source) {
  for (const CallFormFacts& facts : kForms) {
    const auto named = [&](std::string_view sign) {
      return source.find(sign) != std::string_view::npos;
    };
    if (std::ranges::all_of(facts.signs, named)) return facts.form;
  }
  return CallForm::None;
}

std::optional<CallForm> call_form_named(std::string_view name) {
  const auto* const found = std::ranges::find(kForms, name, &CallFormFacts::name);
  return found == std::end(kForms) ? std::nullopt : std::optional(found->form);
}

std::string call_form_names() {
  std::string names;
  for (const CallFormFacts& facts : kForms) {
    if (names.find(facts.name) == std::string::npos)
      names += (names.empty() ? "" : ", ") + std::string(facts.name);
  }
  return names;
}

std::string tool_call_id(std::uint64_t request, std::size_t index, CallForm form) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool alone = form == CallForm::Mistral;
  std::string id = alone ? "" : "call_";
  std::uint64_t state = request + 0x9E3779B97F4A7C15U * (index + 1);
  for (std::size_t n = alone ? 9 : 24; n > 0; --n) {  // splitmix64
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    id += kLetters[(z ^ (z >> 31)) % kLetters.size()];
  }
  return id;
}

}  // namespace cria
