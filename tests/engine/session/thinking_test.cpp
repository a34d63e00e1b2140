// Thinking told apart from the answer, and kept out of the history.
#include <gtest/gtest.h>

#include "tests/engine/demo.h"
#include "tests/engine/session/scripted_model.h"

namespace cria::test {
namespace {

const Model& thinker() {
  static const auto model = scripted_file(kThinkingTemplate, kThinkingScript).load();
  return *model;
}

TEST(Thinking, IsSeparateFromTheAnswer) {
  Session session(thinker(), {});
  Text answer, thoughts;
  GenerateOptions options = greedy();
  options.on_thinking = thoughts.sink();
  options.logprobs = 1;
  const GenerateResult result = session.chat({{"user", "hi"}}, options, answer.sink());
  EXPECT_EQ(result.text, "Fourty");
  EXPECT_EQ(answer.text, result.text);
  EXPECT_EQ(result.reasoning, "hmso");
  EXPECT_EQ(thoughts.text, result.reasoning);
  EXPECT_EQ(result.tokens.size(), 6U);
  EXPECT_EQ(result.reasoning_tokens, 4U);
  ASSERT_EQ(result.logprobs.size(), 2U) << "of the answer alone";
  EXPECT_EQ(result.logprobs[0].id, result.tokens[4]);
  EXPECT_EQ(result.reason, StopReason::EndOfGeneration);
}

TEST(Thinking, TheTemplateMaySwitchItOff) {
  Session session(thinker(), {});
  ChatOptions how;
  how.variables = R"({"enable_thinking": false})";
  const GenerateResult result = session.chat({{"user", "hi"}}, greedy(), {}, how);
  EXPECT_EQ(result.text, "Fourty");
  EXPECT_EQ(result.reasoning, "");
  EXPECT_EQ(result.reasoning_tokens, 0U);
}

TEST(Thinking, ThePromptMayOpenIt) {
  const auto model = scripted_file("{{ messages[0].content }}<|im_start|><think>{# </think> #}",
                                   {"<think>", "hm", "</think>", "Four"})
                         .load();
  Session session(*model, {});
  const GenerateResult result = session.chat({{"user", "hi"}}, greedy());
  EXPECT_EQ(result.reasoning, "hm");
  EXPECT_EQ(result.text, "Four");
  EXPECT_EQ(result.reasoning_tokens, 2U);
}

TEST(Thinking, StopTextsEndAnswersOnly) {
  Session session(thinker(), {});
  GenerateOptions options = greedy();
  options.stop = {"ms", "rt"};
  const GenerateResult result = session.chat({{"user", "hi"}}, options);
  EXPECT_EQ(result.reasoning, "hmso");
  EXPECT_EQ(result.text, "Fou");
  EXPECT_EQ(result.stop, "rt");
  EXPECT_EQ(result.reason, StopReason::StopString);
}

TEST(Thinking, MayBeAllThereIs) {
  Session session(thinker(), {});
  const GenerateResult cut = session.chat({{"user", "hi"}}, greedy(3));
  EXPECT_EQ(cut.reason, StopReason::Length);
  EXPECT_EQ(cut.text, "");
  EXPECT_EQ(cut.reasoning, "hmso");
  GenerateOptions options = greedy();
  options.on_thinking = [](std::string_view) { return false; };
  const GenerateResult refused = session.chat({{"user", "hi"}}, options);
  EXPECT_EQ(refused.reason, StopReason::Interrupted);
  EXPECT_EQ(refused.reasoning, "hm");
}

// The template decides how thinking appears in the history. The conversation continues like that of
// a session that has never seen the thinking.
TEST(Thinking, IsLeftOutOfTheHistory) {
  Session session(thinker(), {});
  std::vector<ChatMessage> talk = {{"user", "hi"}};
  (void)session.chat(talk, greedy());
  talk.push_back({"assistant", "Fourty",
                  R"({"role": "assistant", "content": "Fourty", "reasoning_content": "hmso"})"});
  talk.push_back({"user", "why"});
  ChatOptions how;
  std::string prompt;
  how.on_prompt = [&](std::string_view text, std::span<const TokenId>) { prompt = text; };
  const GenerateResult second = session.chat(talk, greedy(), {}, how);
  EXPECT_EQ(prompt,
            "<|im_start|>user hi<|im_end|><|im_start|>assistant Fourty<|im_end|>"
            "<|im_start|>user why<|im_end|><|im_start|>");
  EXPECT_GT(second.cached_tokens, 4U) << "up to the answer nothing has changed";
  Session fresh(thinker(), {});
  EXPECT_EQ(fresh.chat(talk, greedy()).tokens, second.tokens);
  EXPECT_TRUE(std::ranges::equal(fresh.tokens(), session.tokens()));
}

TEST(Thinking, ChannelsAreControlTokens) {
  const auto model =
      scripted_file("{{ messages[0].content }}<|im_start|>{# <|channel|>analysis<|message|> #}",
                    {"<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "Four",
                     "<|return|>", "<|call|>"})
          .load();
  Session session(*model, {});
  const GenerateResult result = session.chat({{"user", "hi"}}, greedy());
  EXPECT_EQ(result.reasoning, "hm");
  EXPECT_EQ(result.text, "Four");
}

TEST(Thinking, CallsComeAfterIt) {
  const auto model =
      scripted_file("{{ messages[0].content }}{{ tools }}<|im_start|>{# <think> <tool_call> #}",
                    {"<think>", "hm", "</think>", "<tool_call>", "\n",
                     R"({"name": "f", "arguments": )", "{}", "}\n", "</tool_call>"})
          .load();
  Session session(*model, {});
  ChatOptions how;
  how.variables = R"({"tools": [{"function": {"name": "f"}}]})";
  GenerateOptions options = greedy();
  std::vector<ToolCall> heard;
  options.on_call = [&heard](const ToolCall& call) { heard.push_back(call); };
  const GenerateResult result = session.chat({{"user", "hi"}}, options, {}, how);
  EXPECT_EQ(result.reasoning, "hm");
  EXPECT_EQ(result.text, "");
  ASSERT_EQ(result.tool_calls.size(), 1U);
  EXPECT_EQ(result.tool_calls[0].name, "f");
  EXPECT_EQ(result.tool_calls[0].arguments, "{}");
  EXPECT_EQ(heard, result.tool_calls);
  how.variables = "";
  EXPECT_EQ(session.chat({{"user", "hi"}}, options, {}, how).text,
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>");
}

// A message to a tool, in gpt-oss's commentary.
TEST(Thinking, CallsInChannels) {
  const auto model =
      scripted_file(
          "{{ messages[0].content }}{{ tools }}<|im_start|>{# <|channel|>analysis functions. #}",
          {"<|channel|>", "commentary to=functions.f ", "<|constrain|>", "json", "<|message|>",
           R"({"a": 1})", "<|call|>", "<|return|>"})
          .load();
  Session session(*model, {});
  ChatOptions how;
  how.variables = R"({"tools": [{"function": {"name": "f"}}]})";
  const GenerateResult result = session.chat({{"user", "hi"}}, greedy(), {}, how);
  EXPECT_EQ(result.text, "");
  ASSERT_EQ(result.tool_calls.size(), 1U);
  EXPECT_EQ(result.tool_calls[0].name, "f");
  EXPECT_EQ(result.tool_calls[0].arguments, R"({"a": 1})");
}

}  // namespace
}  // namespace cria::test
