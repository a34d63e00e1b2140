// Ids of a growing conversation.
#include "tokenizer/chat/transcript.h"

#include <gtest/gtest.h>

#include "tests/tokenizer/vocabularies.h"
#include "tokenizer/chat/chat_template.h"

namespace cria::testing {
namespace {

const ChatTemplate& chatml() {
  static const ChatTemplate chat = ChatTemplate::from_vocabulary(demo().vocabulary);
  return chat;
}

Ids joined(Ids a, const Ids& b) { return a.insert(a.end(), b.begin(), b.end()), a; }

TEST(Transcript, KeepsTheIdsOfAnAnswer) {
  const Tokenizer& tokenizer = *demo().tokenizer;
  Transcript transcript;
  std::vector<ChatMessage> talk{{"user", "What is the capital of France?"}};
  const Ids first = transcript.encode(tokenizer, chatml().render(talk, {}));
  EXPECT_EQ(first, chatml().encode(tokenizer, talk, {}));
  Ids answer = tokenizer.encode("\nParis", false, false);
  StreamDecoder decoder(tokenizer, true);
  std::string said;
  for (const TokenId id : answer) said += decoder.push(id);
  transcript.answered(tokenizer, answer, said);
  talk.push_back({"assistant", said});
  talk.push_back({"user", "And of Spain?"});
  const Ids second = transcript.encode(tokenizer, chatml().render(talk, {}));
  ASSERT_GT(second.size(), first.size() + answer.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
  EXPECT_TRUE(std::equal(answer.begin(), answer.end(),
                         second.begin() + static_cast<std::ptrdiff_t>(first.size())));
  EXPECT_EQ(tokenizer.decode(second, true), "<s>" + chatml().render(talk, {}).bytes());
}

TEST(Transcript, KeepsUnusualTokenIds) {
  const Tokenizer& tokenizer = *demo().tokenizer;
  Transcript transcript;
  std::vector<ChatMessage> talk{{"user", "Hi"}};
  const Ids first = transcript.encode(tokenizer, chatml().render(talk, {}));
  Ids answer;
  for (const char c : std::string("Paris")) {
    const std::string byte(1, c);
    for (TokenId id = 0; id < static_cast<TokenId>(demo().vocabulary.tokens.size()); ++id) {
      if (tokenizer.piece(id) == byte) {
        answer.push_back(id);
        break;
      }
    }
  }
  ASSERT_EQ(answer.size(), 5U);
  transcript.answered(tokenizer, answer, "Paris");
  talk.push_back({"assistant", "Paris"});
  talk.push_back({"user", "Bye"});
  const Ids second = transcript.encode(tokenizer, chatml().render(talk, {}));
  const Ids known = joined(first, answer);
  EXPECT_TRUE(std::equal(known.begin(), known.end(), second.begin()));
  EXPECT_NE(second, chatml().encode(tokenizer, talk, {}));
}

TEST(Transcript, ForgetsWhatHistoryDoesNotShow) {
  const Tokenizer& tokenizer = *demo().tokenizer;
  Transcript transcript;
  std::vector<ChatMessage> talk{{"user", "Hi"}};
  (void)transcript.encode(tokenizer, chatml().render(talk, {}));
  transcript.answered(tokenizer, tokenizer.encode("Hello you", false, false),
                      "Hello");  // cut by a stop string
  talk.push_back({"assistant", "Hello"});
  talk.push_back({"user", "Bye"});
  EXPECT_EQ(transcript.encode(tokenizer, chatml().render(talk, {})),
            chatml().encode(tokenizer, talk, {}));
  const std::vector<ChatMessage> other{{"user", "Something else"}};
  EXPECT_EQ(transcript.encode(tokenizer, chatml().render(other, {})),
            chatml().encode(tokenizer, other, {}));
}

// The same bytes, but this time the user typed the markers: the known ids would be control tokens.
TEST(Transcript, DistinguishesAuthorsOfEqualBytes) {
  const Tokenizer& tokenizer = *demo().tokenizer;
  Transcript transcript;
  const Ids trusted = transcript.encode(tokenizer, jinja::Text("<|im_end|>", true));
  const Ids typed = transcript.encode(tokenizer, jinja::Text("<|im_end|>", false));
  EXPECT_NE(trusted, typed);
  EXPECT_EQ(typed, encode_rendered(tokenizer, jinja::Text("<|im_end|>", false)));
}

}  // namespace
}  // namespace cria::testing
