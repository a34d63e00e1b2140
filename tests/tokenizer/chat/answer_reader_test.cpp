// Answers read token by token, markers being control tokens.
#include "tokenizer/chat/answer_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

struct ReadAnswer {
  std::string thinking, answer;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  bool operator==(const ReadAnswer&) const = default;
};

void PrintTo(const ReadAnswer& read, std::ostream* out) {
  *out << "thinking [" << read.thinking << "] answer [" << read.answer << "]";
  for (const auto& [name, arguments] : read.calls)
    *out << " call " << name << " [" << arguments << "]";
}

/// The text's control tokens, and a token for each of its other bytes.
ReadAnswer read(const std::string& chat_template, const std::vector<std::string>& markers,
                std::string_view text, bool cut = false) {
  BytePairs pairs;
  std::map<std::string, TokenId> ids = {{"<|end|>", 1}};
  for (const std::string& marker : markers) ids[marker] = pairs.add(marker, TokenType::Control);
  const auto tokenizer = pairs.tokenizer();
  AnswerReader reader(*tokenizer, AnswerFormat::of_template(chat_template), false);
  ReadAnswer out;
  const AnswerReader::Sink sink = {
      [&](AnswerPart part, std::string_view piece) {
        (part == AnswerPart::Thinking ? out.thinking : out.answer) += piece;
      },
      [&](const ToolCall& call) { out.calls.emplace_back(call.name, call.arguments); }};
  while (!text.empty()) {
    const auto marker =
        std::ranges::find_if(ids, [&](const auto& each) { return text.starts_with(each.first); });
    reader.push(marker == ids.end() ? BytePairs::byte(text[0]) : marker->second, sink);
    text.remove_prefix(marker == ids.end() ? 1 : marker->first.size());
  }
  reader.finish(sink, cut);
  return out;
}

TEST(AnswerReader, Gemma4) {
  const std::vector<std::string> markers = {"<|channel>",   "<channel|>", "<|tool_call>",
                                            "<tool_call|>", "<|\"|>",     "<|image>"};
  EXPECT_EQ(read("<|channel>thought <channel|> <|tool_call>call:", markers,
                 "<|channel>thought\nhm <|image><channel|>I "
                 "look.\n<|tool_call>call:f{a:<|\"|>é<|\"|>,b:[1]}"
                 "<tool_call|><|tool_call>call:g{}<tool_call|>"),
            (ReadAnswer{"hm", "I look.", {{"f", R"({"a": "é", "b": [1]})"}, {"g", "{}"}}}));
}

TEST(AnswerReader, Mistral) {
  EXPECT_EQ(read("[TOOL_CALLS]", {"[TOOL_CALLS]", "[ARGS]"},
                 "Well.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}"),
            (ReadAnswer{"", "Well.", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}));
}

TEST(AnswerReader, Channels) {
  EXPECT_EQ(read("<|channel|>analysis functions.",
                 {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"},
                 "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
                 "to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>"),
            (ReadAnswer{"hm", "", {{"f", "{\"a\": 1}"}}}));
}

TEST(AnswerReader, CallsInChannelsWithoutArguments) {
  const auto heard = [](const std::string& body, bool cut = false) {
    return read("<|channel|>analysis functions.",
                {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"},
                "<|channel|>commentary to=functions.now<|constrain|>json<|message|>" + body, cut);
  };
  for (const char* const body : {"<|call|>", " \n<|call|>", "", "<|end|>", "{}<|call|>"})
    EXPECT_EQ(heard(body), (ReadAnswer{"", "", {{"now", "{}"}}})) << body;
  EXPECT_EQ(heard("<|end|><|start|>assistant<|channel|>final<|message|>Done."),
            (ReadAnswer{"", "Done.", {{"now", "{}"}}}));
  EXPECT_EQ(heard("", true), ReadAnswer()) << "its arguments were still to come";
}

TEST(AnswerReader, TwoCallsOfOneToolInChannels) {
  EXPECT_EQ(read("<|channel|>analysis functions.",
                 {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"},
                 "<|channel|>commentary to=functions.f<|constrain|>json<|message|>{\"a\": "
                 "1}<|end|><|start|>assistant<|channel|>commentary to=functions.f "
                 "<|constrain|>json<|message|>{\"a\": {\"b\": 2}<|call|>"),
            (ReadAnswer{"", "", {{"f", "{\"a\": 1}"}, {"f", "{\"a\": {\"b\": 2}}"}}}))
      << "a missing bracket is added";
}

TEST(AnswerReader, ThinkingInWords) {
  EXPECT_EQ(read("Here is my thought process: Here is my response:", {},
                 "Here is my thought process: Hm.\n\nHere is my response: Yes."),
            (ReadAnswer{"Hm.", "Yes.", {}}));
  EXPECT_EQ(read("Here are my reasoning steps: [BEGIN FINAL RESPONSE] [END FINAL RESPONSE]", {},
                 "Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nYes.\n[END FINAL "
                 "RESPONSE]"),
            (ReadAnswer{"Hm.", "Yes.", {}}));
}

TEST(AnswerReader, HalfACharacterStaysBeforeTheMarker) {
  EXPECT_EQ(read("<think> </think>", {"<think>", "</think>"}, "<think>a \xF0\x9F</think>b"),
            (ReadAnswer{"a \xF0\x9F", "b", {}}));
}

}  // namespace
}  // namespace cria::testing
