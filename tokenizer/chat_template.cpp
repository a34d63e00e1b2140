#include "tokenizer/chat_template.h"

#include "model/error.h"

namespace cria {

namespace {

/// ChatML: every message is <|im_start|>ROLE\nCONTENT<|im_end|>\n. Markers are ours; role and content are not
/// to be trusted.
std::vector<TextPart> chatml_parts(const std::vector<ChatMessage>& messages, bool add_generation_prompt) {
  std::vector<TextPart> parts;
  for (const ChatMessage& message : messages) {
    parts.insert(parts.end(), {{"<|im_start|>", true},
                               {message.role, false},
                               {"\n", true},
                               {message.content, false},
                               {"<|im_end|>", true},
                               {"\n", true}});
  }
  if (add_generation_prompt) parts.insert(parts.end(), {{"<|im_start|>", true}, {"assistant\n", true}});
  return parts;
}

}  // namespace

ChatTemplate ChatTemplate::from_vocabulary(const Vocabulary& vocabulary) {
  if (vocabulary.chat_template.find("<|im_start|>") == std::string::npos) {
    throw Error(
        "",
        std::string(vocabulary.chat_template.empty() ? "no chat template" : "unknown kind of chat template") +
            ": only ChatML (<|im_start|> … <|im_end|>) is known so far",
        "key tokenizer.chat_template");
  }
  return {};
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) const {
  std::string text;
  for (const TextPart& part : chatml_parts(messages, add_generation_prompt)) text += part.text;
  return text;
}

std::vector<TokenId> ChatTemplate::encode(const Tokenizer& tokenizer,
                                          const std::vector<ChatMessage>& messages,
                                          bool add_generation_prompt) const {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<TokenId> ids = tokenizer.encode_parts(chatml_parts(messages, add_generation_prompt));
  // No EOS whatever the vocabulary says: the template ends the turns, and the last one is the model's to end.
  if (vocabulary.add_bos && (ids.empty() || ids.front() != *vocabulary.bos))
    ids.insert(ids.begin(), *vocabulary.bos);
  return ids;
}

}  // namespace cria
