// Thinking and answers told apart, however the text is cut into pieces.
#include "tokenizer/chat/answer_reader.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace cria {
namespace {

struct Said {
  std::string thinking, answer, call, receiver;
  bool operator==(const Said&) const = default;
};

void PrintTo(const Said& said, std::ostream* out) {
  *out << "thinking [" << said.thinking << "] answer [" << said.answer << "] call ["
       << said.receiver << ": " << said.call << "]";
}

AnswerSplitter::Sink into(Said& said) {
  return [&said](AnswerPart part, std::string_view text, std::string_view receiver) {
    EXPECT_FALSE(text.empty());
    switch (part) {
      case AnswerPart::Thinking:
        said.thinking += text;
        break;
      case AnswerPart::Answer:
        said.answer += text;
        break;
      case AnswerPart::Call:
        said.call += text;
        said.receiver = receiver;
        break;
    }
  };
}

/// The text in one piece, byte by byte, and in random pieces: always the same.
Said split(const AnswerFormat& format, std::string_view text, bool opened = false) {
  Said whole;
  AnswerSplitter one(format, opened);
  one.push(text, into(whole));
  one.finish(into(whole));
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    Said said;
    AnswerSplitter splitter(format, opened);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = round == 0 ? 1 : 1 + random() % 9;
      splitter.push(text.substr(at, n), into(said));
      at += n;
    }
    splitter.finish(into(said));
    EXPECT_EQ(said, whole) << text;
  }
  return whole;
}

const AnswerFormat kThink = AnswerFormat::of_template("{{ '<think>' }} {{ '</think>' }}");

TEST(AnswerSplitter, ABlockOfThinkingThenTheAnswer) {
  EXPECT_EQ(split(kThink, "<think>\nWell.\n\nSo.\n</think>\n\nFour.\n"),
            (Said{"Well.\n\nSo.", "Four.\n", "", ""}));
  EXPECT_EQ(split(kThink, "\n<think>\n\n</think>\n\nFour."), (Said{"", "Four.", "", ""}))
      << "nothing thought";
  EXPECT_EQ(split(kThink, "<think>a </thin k> b"), (Said{"a </thin k> b", "", "", ""}))
      << "never closed";
  EXPECT_EQ(split(kThink, "<think>a</think>"), (Said{"a", "", "", ""}));
  EXPECT_EQ(split(kThink, "<think>a </thi"), (Said{"a </thi", "", "", ""}))
      << "the marker is cut off";
}

TEST(AnswerSplitter, AnswersWithoutThinkingAreAsTheyCome) {
  EXPECT_EQ(split(kThink, "\n Four <think>?\n"), (Said{"", "\n Four <think>?\n", "", ""}));
  EXPECT_EQ(split(kThink, "<thin ice"), (Said{"", "<thin ice", "", ""}));
  EXPECT_EQ(split(kThink, "  <th"), (Said{"", "  <th", "", ""}));
  EXPECT_EQ(split({}, "<think>a</think>b"), (Said{"", "<think>a</think>b", "", ""}))
      << "a plain format";
}

TEST(AnswerSplitter, ThePromptMayHaveOpenedTheBlock) {
  EXPECT_TRUE(kThink.opened_by("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(kThink.opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(kThink.opened_by("<|im_start|>assistant\n"));
  EXPECT_FALSE(kThink.opened_by(" \n"));
  EXPECT_EQ(split(kThink, "\nWell.</think>Four.", true), (Said{"Well.", "Four.", "", ""}));
}

TEST(AnswerSplitter, EachFamilysMarkers) {
  const std::map<std::string, std::string> pairs{
      {"<seed:think>", "</seed:think>"},          {"[THINK]", "[/THINK]"},
      {"<|START_THINKING|>", "<|END_THINKING|>"}, {"<|channel>thought", "<channel|>"},
      {"<|inner_prefix|>", "<|inner_suffix|>"},   {"<thought>", "</thought>"}};
  for (const auto& [open, close] : pairs) {
    const AnswerFormat format = AnswerFormat::of_template("a " + open + close + " <think>");
    EXPECT_EQ(split(format, open + "\nx" + close + "y"), (Said{"x", "y", "", ""})) << open;
  }
  EXPECT_FALSE(AnswerFormat::of_template("<|im_start|>{{ messages[0].content }}").thinks());
}

TEST(AnswerSplitter, WhatSomeModelsPutAroundTheAnswer) {
  const AnswerFormat format = AnswerFormat::of_template("<think></think><answer></answer>");
  EXPECT_EQ(split(format, "<think>\na\n</think>\n<answer>\nb </ans c\n</answer>\n"),
            (Said{"a", "b </ans c", "", ""}));
  EXPECT_EQ(split(format, "<think>a</think>b</answer>"), (Said{"a", "b</answer>", "", ""}))
      << "not opened";
  EXPECT_EQ(split(format, "<think>a</think><ans"), (Said{"a", "<ans", "", ""}));
}

TEST(AnswerSplitter, SplitsAtControlTokens) {
  Said said;
  AnswerSplitter splitter(AnswerFormat::of_template("<|channel>thought <channel|>"), false);
  splitter.push_control("<|channel>", into(said));
  splitter.push("thought\nhm", into(said));
  EXPECT_TRUE(splitter.thinking());
  splitter.push_control("<channel|>", into(said));
  splitter.push("yes", into(said));
  splitter.push_control("<|image|>", into(said));
  splitter.finish(into(said));
  EXPECT_EQ(said, (Said{"hm", "yes", "", ""}));
}

/// Control tokens written as (…).
Said channels(const std::string& text, bool opened = false) {
  Said said;
  AnswerSplitter splitter(AnswerFormat::of_template("<|channel|>analysis"), opened);
  for (std::size_t at = 0; at < text.size();) {
    const bool control = text[at] == '(';
    const std::size_t end =
        control ? text.find(')', at) + 1 : std::min(text.find('(', at), text.size());
    if (control)
      splitter.push_control("<|" + text.substr(at + 1, end - at - 2) + "|>", into(said));
    else
      for (std::size_t i = at; i < end; i += 3)
        splitter.push(text.substr(i, std::min<std::size_t>(3, end - i)), into(said));
    at = end;
  }
  splitter.finish(into(said));
  return said;
}

TEST(AnswerSplitter, Channels) {
  EXPECT_EQ(channels("(channel)analysis(message)User "
                     "asks.(end)(start)assistant(channel)final(message)Four.\n"),
            (Said{"User asks.", "Four.\n", "", ""}));
  EXPECT_EQ(channels("(channel)final(message)Four."), (Said{"", "Four.", "", ""}));
  EXPECT_EQ(channels("Four."), (Said{"", "Four.", "", ""})) << "no channel named";
  EXPECT_EQ(channels("hm(end)(start)assistant(channel)final(message)4", true),
            (Said{"hm", "4", "", ""}));
  EXPECT_EQ(
      channels("(channel)analysis(message)w(end)(start)assistant(channel)commentary to=functions.f "
               "(constrain)json(message){\"a\": 1}"),
      (Said{"w", "", "{\"a\": 1}", "functions.f"}));
  EXPECT_EQ(channels("(start)assistant to=functions.f(channel)commentary json(message){}"),
            (Said{"", "", "{}", "functions.f"}))
      << "the receiver before the channel";
  EXPECT_EQ(channels(" to=functions.f(channel)commentary json(message){}(call)"),
            (Said{"", "", "{}", "functions.f"}))
      << "the same, after a prompt that starts the header";
  for (const char* const text : {" to=", " to=you", " t", " too=", " "})
    EXPECT_EQ(channels(text), (Said{"", text, "", ""})) << "a text that begins like that";
  EXPECT_EQ(channels(" t(channel)final(message)4"), (Said{"", " t4", "", ""}));
  EXPECT_EQ(channels("(channel)commentary(message)I will look.(end)"),
            (Said{"", "I will look.", "", ""}))
      << "a preamble is for the user";
  EXPECT_EQ(channels("(channel)analysis(message)a(end)(start)assistant(channel)analysis(message)b"
                     "(end)(start)assistant(channel)commentary(message)c(end)"
                     "(start)assistant(channel)final(message)d"),
            (Said{"a\n\nb", "c\n\nd", "", ""}))
      << "messages of one part are paragraphs";
  EXPECT_EQ(channels("a(end)(start)assistant(channel)analysis(message)b", true),
            (Said{"a\n\nb", "", "", ""}));
  EXPECT_EQ(channels("(think)a(end)(begin)assistant(content)b(end)"), (Said{"a", "b", "", ""}))
      << "Solar";
}

}  // namespace
}  // namespace cria
