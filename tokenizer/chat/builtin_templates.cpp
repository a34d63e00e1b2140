#include "tokenizer/chat/builtin_templates.h"

#include <algorithm>

namespace cria {
namespace {

// Each model family's format as its makers document it, in our own words.

constexpr std::string_view kChatml = R"({%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%})";

// Without roles of its own for instructions: the system message stands at the head of the first question.
constexpr std::string_view kLlama2 = R"({%- set opening = namespace(text='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set opening.text = '<<SYS>>\n' + message.content|trim + '\n<</SYS>>\n\n' -%}
  {%- elif message.role == 'user' -%}
    {{- bos_token + '[INST] ' + opening.text + message.content|trim + ' [/INST]' -}}
    {%- set opening.text = '' -%}
  {%- elif message.role == 'assistant' -%}
    {{- ' ' + message.content|trim + ' ' + eos_token -}}
  {%- else -%}
    {{- raise_exception('llama2 knows the roles system, user and assistant, not ' + message.role) -}}
  {%- endif -%}
{%- endfor -%})";

constexpr std::string_view kLlama3 = R"({{- bos_token -}}
{%- for message in messages -%}
  {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content|trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%})";

constexpr std::string_view kMistral = R"({{- bos_token -}}
{%- set opening = namespace(text='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set opening.text = message.content + '\n\n' -%}
  {%- elif message.role == 'user' -%}
    {{- '[INST] ' + opening.text + message.content + ' [/INST]' -}}
    {%- set opening.text = '' -%}
  {%- elif message.role == 'assistant' -%}
    {{- ' ' + message.content|trim + eos_token -}}
  {%- else -%}
    {{- raise_exception('mistral knows the roles system, user and assistant, not ' + message.role) -}}
  {%- endif -%}
{%- endfor -%})";

constexpr std::string_view kZephyr = R"({%- for message in messages -%}
  {{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%})";

constexpr std::string_view kPhi3 = R"({%- for message in messages -%}
  {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%})";

constexpr std::string_view kGemma = R"({{- bos_token -}}
{%- set opening = namespace(text='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set opening.text = message.content|trim + '\n\n' -%}
  {%- else -%}
    {%- set role = 'model' if message.role == 'assistant' else message.role -%}
    {{- '<start_of_turn>' + role + '\n' + opening.text + message.content|trim + '<end_of_turn>\n' -}}
    {%- set opening.text = '' -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%})";

constexpr std::string_view kDeepseek = R"({{- bos_token -}}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- message.content -}}
  {%- elif message.role == 'user' -%}
    {{- '<｜User｜>' + message.content -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<｜Assistant｜>' + message.content + eos_token -}}
  {%- else -%}
    {{- raise_exception('deepseek knows the roles system, user and assistant, not ' + message.role) -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜>' -}}{%- endif -%})";

constexpr std::string_view kPlain = R"({%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- message.content|trim + '\n\n' -}}
  {%- else -%}
    {{- message.role|capitalize + ': ' + message.content|trim + '\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%})";

constexpr BuiltinTemplate kTemplates[] = {
    {"chatml", kChatml, ""},   {"llama2", kLlama2, ""},     {"llama3", kLlama3, ""},
    {"mistral", kMistral, ""}, {"zephyr", kZephyr, ""},     {"phi3", kPhi3, ""},
    {"gemma", kGemma, ""},     {"deepseek", kDeepseek, ""}, {"plain", kPlain, "\nUser:"}};

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() { return kTemplates; }

const BuiltinTemplate* find_builtin_template(std::string_view name) {
  const auto* const found = std::ranges::find(kTemplates, name, &BuiltinTemplate::name);
  return found == std::end(kTemplates) ? nullptr : found;
}

}  // namespace cria
