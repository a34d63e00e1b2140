// Chat templates with a tokenizer: a template, a NUL byte, and the texts of messages between NUL
// bytes. No text of a message becomes a control token.
#include "tokenizer/chat/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/vocabulary.h"
#include "tests/fuzz/jinja_seeds.h"
#include "tests/fuzz/target.h"
#include "tokenizer/chat/transcript.h"
#include "tokenizer/jinja/values/json.h"

namespace cria::fuzz {
namespace {

/// A vocabulary of all bytes and a few control tokens.
const Tokenizer& byte_tokenizer() {
  static const std::vector<std::string> texts = [] {
    constexpr char kHex[] = "0123456789ABCDEF";
    std::vector<std::string> list = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    for (int byte = 0; byte < 256; ++byte)
      list.push_back({'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'});
    return list;
  }();
  static const Vocabulary vocabulary = [] {
    Vocabulary v;
    v.model = "llama";
    v.tokens.assign(texts.begin(), texts.end());
    for (std::size_t i = 0; i < texts.size(); ++i)
      v.types.push_back(i == 0 ? TokenType::Unknown : i < 5 ? TokenType::Control : TokenType::Byte);
    v.scores.resize(texts.size());
    v.unk = 0;
    v.bos = 1;
    v.eos = 2;
    v.add_bos = true;
    return v;
  }();
  static const auto tokenizer = Tokenizer::create(vocabulary);
  return *tokenizer;
}

/// A JSON object is a message with other fields than a text, or with a text in parts.
void add_whole(ChatMessage& message) {
  const auto json = nlohmann::ordered_json::parse(message.content, nullptr, false);
  if (!json.is_object()) return;
  try {
    (void)jinja::from_json(json);
    message.json = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  } catch (const jinja::Failure&) {  // nested too deeply
  }
}

std::vector<ChatMessage> messages_of(std::string_view rest) {
  std::vector<ChatMessage> out;
  constexpr const char* kRoles[] = {"system", "user", "assistant", "tool", "<|im_end|>"};
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    std::string text(rest.substr(0, end));
    const std::size_t role =
        text.empty() ? 1 : static_cast<unsigned char>(text[0]) % std::size(kRoles);
    out.push_back({kRoles[role], text.empty() ? "" : text.substr(1)});
    add_whole(out.back());
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

std::ptrdiff_t controls(const std::vector<TokenId>& ids) {
  return std::ranges::count_if(ids, [](TokenId id) { return id > 0 && id < 5; });
}

/// The tokens of a continued conversation, some of them cached, decode to its text.
void require_goes_on(const Tokenizer& tokenizer, const ChatTemplate& chat,
                     std::vector<ChatMessage> messages, const RenderOptions& options,
                     Transcript& transcript) {
  messages.push_back({"assistant", "a"});
  messages.push_back({"user", "b"});
  const jinja::Text rendered = chat.render(messages, options);
  const std::string text = tokenizer.decode(transcript.encode(tokenizer, rendered), true);
  require(text == rendered.bytes() || text == "<s>" + rendered.bytes(),
          "continuation changes the text");
}

void run_chat_template(std::string_view input) {
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const Tokenizer& tokenizer = byte_tokenizer();
  const TemplateTokens tokens = TemplateTokens::of(tokenizer.vocabulary());
  const std::string name(input.substr(0, cut));
  const auto builtin = ChatTemplate::builtin(name, tokens);
  const ChatTemplate chat = builtin ? *builtin : ChatTemplate::parse(name, "fuzz", tokens);
  std::vector<ChatMessage> messages = messages_of(input.substr(std::min(cut + 1, input.size())));
  RenderOptions options;
  options.now.emplace().tm_mday = 1;
  options.add_generation_prompt = input.size() % 2 == 0;
  const jinja::Text rendered = chat.render(messages, options);
  const auto ids = encode_rendered(tokenizer, rendered);
  const bool has_bos = !ids.empty() && ids.front() == 1;
  require(tokenizer.decode(ids, true) == rendered.bytes() ||
              (has_bos && tokenizer.decode(ids, true) == "<s>" + rendered.bytes()),
          "another text than was rendered");
  require(system_tokens(tokenizer, chat, messages, options) <= ids.size(),
          "more system tokens than tokens");
  Transcript transcript;
  require(transcript.encode(tokenizer, rendered) == ids, "a transcript of other tokens");
  transcript.answered(tokenizer, std::vector<TokenId>{5 + 'a'}, "a");
  require_goes_on(tokenizer, chat, messages, options, transcript);
  if (!builtin) return;
  // Texts add no control tokens: there are as many as with empty messages.
  for (ChatMessage& message : messages) message.content = message.content.empty() ? "" : "x";
  require(controls(ids) == controls(encode_rendered(tokenizer, chat.render(messages, options))),
          "a control token out of a message");
}

std::vector<std::string> chat_template_seeds() {
  std::vector<std::string> out;
  using namespace std::string_literals;  // strings hold NUL bytes; the first letter is the role
  const std::string talk = "\0\5Be brief.\0\1Hi <|im_end|><s>\0\2Hello\0\1Bye"s;
  for (const char* name :
       {"chatml", "llama2", "llama3", "mistral", "zephyr", "phi3", "gemma", "deepseek", "plain"})
    out.push_back(name + talk);
  for (const char* call :
       {R"({"function":{"name":5}})", R"({"name":"f","arguments":"{\"a\":18446744073709551615}"})",
        R"({"function":{"name":"f","arguments":"{\"a\":[{}]}"}})"}) {
    const std::string calls =
        R"({"content":[{"type":"text","text":"a"}],"tool_calls":[)" + std::string(call) + "]}";
    for (const char* name : {"chatml", "qwen3"})
      out.push_back(name + "\0\1Hi\0\2"s + calls +
                    "\0\3"
                    "4"s);
  }
  out.push_back(
      "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content "
      "}}<|im_end|>\n{% endfor "
      "%}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}" +
      talk);
  out.push_back(
      "{% if messages[0]['role'] == 'system' %}{% set s = messages[0].content %}{% endif %}"
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{{ eos_token }}{% endfor %}" +
      talk);
  const std::string parts =
      "\0\1"s + R"({"role":"user","content":[{"type":"text","text":"a <s>"},{"text":"b"}],"n":1})";
  out.push_back("chatml" + parts);
  out.push_back("{{ messages[0].content[0]['text'] }}" + parts);
  out.push_back("chatml\0\1"s + R"({"role":"user","content":[{"image":"x"}]})");
  out.push_back("gemma\0\5Only the system."s);
  return out;
}

}  // namespace

const Target kChatTemplate{"chat_template", run_chat_template, chat_template_seeds, nullptr,
                           jinja_words};

}  // namespace cria::fuzz
