#include "tokenizer/chat/template_messages.h"

#include <algorithm>

namespace cria {
namespace {

// Each model family's format as its makers document it, in our own words.

constexpr std::string_view kChatml = R"({%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%})";

// Without roles of its own for instructions: the system message stands at the head of the first
// question.
constexpr std::string_view kLlama2 = R"({%- set opening = namespace(words='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set opening.words = '<<SYS>>\n' + message.content|trim + '\n<</SYS>>\n\n' -%}
  {%- elif message.role == 'user' -%}
    {{- bos_token + '[INST] ' + opening.words + message.content|trim + ' [/INST]' -}}
    {%- set opening.words = '' -%}
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
{%- set opening = namespace(words='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set opening.words = message.content + '\n\n' -%}
  {%- elif message.role == 'user' -%}
    {{- '[INST] ' + opening.words + message.content + ' [/INST]' -}}
    {%- set opening.words = '' -%}
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
{%- set opening = namespace(words='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set opening.words = message.content|trim + '\n\n' -%}
  {%- else -%}
    {%- set role = 'model' if message.role == 'assistant' else message.role -%}
    {{- '<start_of_turn>' + role + '\n' + opening.words + message.content|trim + '<end_of_turn>\n' -}}
    {%- set opening.words = '' -%}
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

constexpr std::string_view kCommandR = R"({{- bos_token -}}
{%- set names = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} -%}
{%- for message in messages -%}
  {{- '<|START_OF_TURN_TOKEN|><|' + names.get(message.role, 'SYSTEM') + '_TOKEN|>' -}}
  {{- message.content|trim + '<|END_OF_TURN_TOKEN|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}{%- endif -%})";

constexpr std::string_view kGranite = R"({%- for message in messages -%}
  {{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\n' -}}
  {%- if tools and loop.first -%}
    {{- '<|start_of_role|>available_tools<|end_of_role|>' + tools|tojson(indent=4) + '<|end_of_text|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_of_role|>assistant<|end_of_role|>' -}}{%- endif -%})";

// The system message of other formats is what the developer says here; thinking of earlier turns is
// gone.
constexpr std::string_view kGptOss = R"({%- set channels = 'analysis, commentary, final' -%}
{{- '<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n' -}}
{{- 'Knowledge cutoff: 2024-06\nCurrent date: ' + strftime_now('%Y-%m-%d') + '\n\n' -}}
{{- 'Reasoning: ' + (reasoning_effort or 'medium') + '\n\n# Valid channels: ' + channels -}}
{{- '. Channel must be included for every message.<|end|>' -}}
{%- for message in messages -%}
  {%- if message.role in ['system', 'developer'] -%}
    {{- '<|start|>developer<|message|># Instructions\n\n' + message.content + '<|end|>' -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' -}}
  {%- else -%}
    {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%})";

// Keeps thinking only while the last question is being answered, for example by tool calls.
constexpr std::string_view kQwen3 = R"({%- set last = namespace(question=-1) -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}{%- set last.question = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- if tools -%}
  {{- '<|im_start|>system\n' -}}
  {%- if messages[0].role == 'system' -%}{{- messages[0].content + '\n\n' -}}{%- endif -%}
  {{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' -}}
  {{- 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' -}}
  {%- for tool in tools -%}{{- '\n' + tool|tojson -}}{%- endfor -%}
  {{- '\n</tools>\n\nFor each function call, return a json object with function name and arguments ' -}}
  {{- 'within <tool_call></tool_call> XML tags:\n<tool_call>\n' -}}
  {{- '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
    {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' -}}
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if message.reasoning_content and loop.index0 > last.question -%}
      {{- '<think>\n' + message.reasoning_content|trim + '\n</think>\n\n' -}}
    {%- endif -%}
    {%- set said = (message.content or '').split('</think>')[-1].lstrip('\n') -%}
    {{- said -}}
    {%- for call in message.tool_calls or [] -%}
      {%- set f = call.function or call -%}
      {{- ('\n' if said or not loop.first else '') + '<tool_call>\n{"name": "' + f.name + '", "arguments": ' -}}
      {{- (f.arguments if f.arguments is string else f.arguments|tojson) + '}\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif not (tools and loop.first and message.role == 'system') -%}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' -}}
  {%- if enable_thinking is defined and not enable_thinking -%}{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}
{%- endif -%})";

constexpr std::string_view kDeepseekR1 = R"({{- bos_token -}}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- message.content -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<｜Assistant｜>' + message.content.split('</think>')[-1].lstrip('\n') + eos_token -}}
  {%- else -%}
    {{- '<｜User｜>' + message.content -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜><think>\n' -}}{%- endif -%})";

constexpr std::string_view kPhi4 = R"({%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '<|im_sep|>' + message.content + '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant<|im_sep|>' -}}{%- endif -%})";

constexpr std::string_view kPhi4Mini = R"({%- for message in messages -%}
  {{- '<|' + message.role + '|>' + message.content + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%})";

constexpr std::string_view kLlama4 = R"({{- bos_token -}}
{%- for message in messages -%}
  {{- '<|header_start|>' + message.role + '<|header_end|>\n\n' + message.content|trim + '<|eot|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|header_start|>assistant<|header_end|>\n\n' -}}{%- endif -%})";

constexpr std::string_view kMistralV7 = R"({{- bos_token -}}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' -}}
  {%- elif message.role == 'assistant' -%}
    {{- message.content|trim + eos_token -}}
  {%- else -%}
    {{- '[INST]' + message.content + '[/INST]' -}}
  {%- endif -%}
{%- endfor -%})";

constexpr std::string_view kGlm4 = R"({{- '[gMASK]<sop>' -}}
{%- for message in messages -%}{{- '<|' + message.role + '|>\n' + message.content -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%})";

constexpr std::string_view kExaone = R"({%- for message in messages -%}
  {{- '[|' + message.role + '|]' + message.content -}}
  {{- '\n' if message.role == 'user' else '[|endofturn|]\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '[|assistant|]' -}}{%- endif -%})";

constexpr std::string_view kPlain = R"({%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- message.content|trim + '\n\n' -}}
  {%- else -%}
    {{- message.role|capitalize + ': ' + message.content|trim + '\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%})";

constexpr BuiltinTemplate kTemplates[] = {
    {"chatml", kChatml, ""},      {"llama2", kLlama2, ""},
    {"llama3", kLlama3, ""},      {"llama4", kLlama4, ""},
    {"mistral", kMistral, ""},    {"mistral-v7", kMistralV7, ""},
    {"zephyr", kZephyr, ""},      {"phi3", kPhi3, ""},
    {"phi4", kPhi4, ""},          {"phi4-mini", kPhi4Mini, ""},
    {"gemma", kGemma, ""},        {"qwen3", kQwen3, ""},
    {"deepseek", kDeepseek, ""},  {"deepseek-r1", kDeepseekR1, ""},
    {"gpt-oss", kGptOss, ""},     {"granite", kGranite, ""},
    {"command-r", kCommandR, ""}, {"glm4", kGlm4, ""},
    {"exaone", kExaone, ""},      {"plain", kPlain, "\nUser:"}};

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() { return kTemplates; }

const BuiltinTemplate* find_builtin_template(std::string_view name) {
  const auto* const found = std::ranges::find(kTemplates, name, &BuiltinTemplate::name);
  return found == std::end(kTemplates) ? nullptr : found;
}

}  // namespace cria
