// Splitting texts into words.
#include "tokenizer/bpe/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "model/error.h"

namespace cria {
namespace {

using Words = std::vector<std::string>;

Words words(const PreTokenizer& pre, std::string_view text) {
  Words out;
  pre.split(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}
Words words(std::string_view pre, std::string_view text) { return words(PreTokenizer(pre), text); }

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(words("gpt-2", "I'm 123  o'clock!\n\n x"),
            (Words{"I", "'m", " 123", " ", " o", "'", "clock", "!", "\n\n", " x"}));
  EXPECT_EQ(words("gpt-2", "WE'RE"), (Words{"WE", "'", "RE"})) << "lower case only";
  EXPECT_EQ(words("gpt-2",
                  "a\xE1\xA0\x8E"
                  "b"),
            (Words{"a", "\xE1\xA0\x8E", "b"}))
      << "U+180E does not count as white space";
}

TEST(PreTokenizer, LlamaTakesThreeDigitsQwenOne) {
  EXPECT_EQ(words("llama-bpe", "12345 WE'RE\r\n  x"),
            (Words{"123", "45", " WE", "'RE", "\r\n", " ", " x"}));
  EXPECT_EQ(words("qwen2", "123 (a)"), (Words{"1", "2", "3", " (", "a", ")"}));
  EXPECT_EQ(words("llama-bpe", ".foo  =\n\n y"), (Words{".foo", " ", " =\n\n", " y"}));
  EXPECT_EQ(words("llama-bpe", "'\xC5\xBF x"), (Words{"'\xC5\xBF", " x"}))
      << "a long s is an s in any case";
}

TEST(PreTokenizer, DigitsOneByOne) {
  for (const char* pre : {"starcoder", "refact", "command-r", "smollm"})
    EXPECT_EQ(words(pre, "ab 12,x"), (Words{"ab", " ", "1", "2", ",", "x"})) << pre;
}

TEST(PreTokenizer, Falcon) {
  EXPECT_EQ(words("falcon", "a`b 12345 $x"),
            (Words{"a", "`", "b", " ", "123", "45", " ", "$", "x"}));
}

TEST(PreTokenizer, DeepSeek) {
  EXPECT_EQ(words("deepseek-coder", "ab\n 12 \xE4\xBD\xA0\xE5\xA5\xBD."),
            (Words{"ab", "\n", " ", "1", "2", " ", "\xE4\xBD\xA0\xE5\xA5\xBD", "."}));
  EXPECT_EQ(words("deepseek-llm", " ab 12  "), (Words{" ab", " ", "1", "2", "  "}));
  EXPECT_EQ(words("deepseek-v3", "#foo bar1234"), (Words{"#foo", " bar", "123", "4"}));
}

TEST(PreTokenizer, CaseEndsWords) {
  EXPECT_EQ(words("tekken", "fooBar'sBAZ 12"), (Words{"foo", "Bar", "'s", "BAZ", " ", "1", "2"}));
  EXPECT_EQ(words("gpt-4o", "fooBar'sBAZ 1234"), (Words{"foo", "Bar's", "BAZ", " ", "123", "4"}));
}

TEST(PreTokenizer, MarksStayWithTheirLetters) {
  EXPECT_EQ(words("qwen2", "a\xCC\x81x 12"), (Words{"a", "\xCC\x81x", " ", "1", "2"}));
  EXPECT_EQ(words("qwen35", "a\xCC\x81x 12"), (Words{"a\xCC\x81x", " ", "1", "2"}));
}

TEST(PreTokenizer, DigitsInThreesFromTheEnd) {
  EXPECT_EQ(words("afmoe", "1234567 x"), (Words{"1", "234", "567", " x"}));
  EXPECT_EQ(words("afmoe", "123456"), (Words{"123", "456"}));
  EXPECT_EQ(words("superbpe", "of 1234567 and"), (Words{"of ", "1", "234", "567", " and"}));
  EXPECT_EQ(words("superbpe",
                  "\xC2\xB2"
                  "12345"),
            (Words{"\xC2\xB2"
                   "12",
                   "345"}))
      << "a superscript does not count as a digit";
  EXPECT_EQ(words("tiny_aya", "1234 x"), (Words{"1", "234", " x"}));
  EXPECT_EQ(words("tiny_aya", "1234x"), (Words{"123", "4", "x"}))
      << "no end of a word: from the front";
  EXPECT_EQ(words("tiny_aya", "1234\xC2\xB2"), (Words{"123", "4\xC2\xB2"}))
      << "nor is it before a ² or ½";
  EXPECT_EQ(words("tiny_aya", "1234\xE2\x91\xA0"), (Words{"1", "234", "\xE2\x91\xA0"}))
      << "but before a ①";
  EXPECT_EQ(words("tiny_aya", "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4"),
            (Words{"\xD9\xA1", "\xD9\xA2\xD9\xA3\xD9\xA4"}))
      << "digits of other scripts";
  EXPECT_EQ(words("minicpm5", "1234"), (Words{"123", "4"}));
}

TEST(PreTokenizer, ChineseRunsOfKimi) {
  EXPECT_EQ(words("kimi-k2",
                  "abc\xE4\xBD\xA0\xE5\xA5\xBD"
                  "Def's 1234/x"),
            (Words{"abc", "\xE4\xBD\xA0\xE5\xA5\xBD", "Def's", " ", "123", "4", "/x"}));
  EXPECT_EQ(words("kimi-k2", " \xE4\xBD\xA0"), (Words{" ", "\xE4\xBD\xA0"}))
      << "no space joins them";
  EXPECT_EQ(words("kimi-k2", "\xE3\x81\x82\xE4\xBD\xA0"), (Words{"\xE3\x81\x82", "\xE4\xBD\xA0"}));
}

TEST(PreTokenizer, WordsWithSpacesInside) {
  EXPECT_EQ(words("exaone-moe", "to be or. 12\n"), (Words{"to be or", ".", " ", "1", "2", "\n"}));
  EXPECT_EQ(words("superbpe", "to be or.\n"), (Words{"to be or.\n"}));
  EXPECT_TRUE(PreTokenizer("exaone-moe").joins_words());
  EXPECT_FALSE(PreTokenizer("gpt-4o").joins_words());
}

TEST(PreTokenizer, OtherScriptsAndLineEnds) {
  EXPECT_EQ(words("youtu", "ab\xE4\xBD\xA0\xEA\xB0\x80\xE3\x80\x82 12"),
            (Words{"ab", "\xE4\xBD\xA0", "\xEA\xB0\x80", "\xE3\x80\x82", " ", "1", "2"}));
  EXPECT_EQ(words("laguna", "a.\n\nb"), (Words{"a", ".", "\n\n", "b"}));
  EXPECT_EQ(words("spark2_5", "a.\n\nb 12"), (Words{"a", ".", "\n", "\n", "b", " ", "1", "2"}));
  EXPECT_EQ(words("jais-2", "a     b"), (Words{"a", "    ", " b"}))
      << "runs of spaces by powers of two";
}

// Classes come from our own table, not from the system's libraries.
TEST(PreTokenizer, KnowsUnicode15) {
  EXPECT_EQ(words("deepseek-v3", " \U0001FAE8"), Words{" \U0001FAE8"});
  EXPECT_EQ(words("qwen2", "\U00031350's"), (Words{"\U00031350", "'s"}));
  EXPECT_EQ(words("gpt-4o", "\U0001E030a"), Words{"\U0001E030a"}) << "a modifier letter";
}

TEST(PreTokenizer, RecognizesEquivalentExpressions) {
  EXPECT_EQ(PreTokenizer::name_of({R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^)"
                                   "\r\n"
                                   R"(\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N})"
                                   "\r\n"
                                   R"(]+|\s*[)"
                                   "\r\n"
                                   R"(]+|\s+(?!\S)|\s+)"},
                                  false),
            "seed-coder");
}

TEST(PreTokenizer, UnknownNamesListTheKnownOnes) {
  try {
    (void)PreTokenizer("no-such-name");
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const char* part : {"llama-bpe", "qwen2", "tekken", "--pre NAME",
                             "got 'no-such-name' (key tokenizer.ggml.pre)"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(words("", "a"), Words{"a"}) << "none is the default one";
}

TEST(PreTokenizer, InvalidBytesAreWordsOfTheirOwn) {
  EXPECT_EQ(words("llama-bpe", "ab\xFF\xC3 c\xE2\x96"),
            (Words{"ab", "\xFF\xC3", " c", "\xE2\x96"}));
}

/// Text of all that the expressions tell apart.
std::string random_text(std::mt19937& random, std::size_t parts) {
  constexpr const char* kParts[] = {"a",
                                    "Z",
                                    "the",
                                    "'s",
                                    "'LL",
                                    "'",
                                    "\"",
                                    " ",
                                    "  ",
                                    "\n",
                                    "\r\n",
                                    "\t",
                                    "1",
                                    "234",
                                    ".",
                                    "...",
                                    "-",
                                    "_",
                                    "/",
                                    "\x01",
                                    "\xC3\xA9",
                                    "\xC5\xBF",
                                    "\xE4\xBD\xA0",
                                    "\xD9\xA3",
                                    "\xC2\xA0",
                                    "\xE3\x80\x80",
                                    "\xCC\x81",
                                    "\xF0\x9F\xA6\x99",
                                    "\x85",
                                    "\xE2"};
  std::string text;
  while (parts-- > 0) text += kParts[random() % std::size(kParts)];
  return text;
}

TEST(PreTokenizer, ShortcutsChangeNothing) {
  std::mt19937 random(5);
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2", "starcoder", "falcon", "default"}) {
    const PreTokenizer fast(name);
    PreTokenizer slow(name);
    slow.without_rules();
    for (int i = 0; i < 4000; ++i) {
      const std::string text = random_text(random, random() % 16);
      ASSERT_EQ(words(fast, text), words(slow, text)) << name;
    }
    for (int i = 0; i < 4000; ++i) {  // every ASCII character
      std::string text(random() % 12, ' ');
      for (char& c : text) c = random() % 3 == 0 ? c : static_cast<char>(random() % 128);
      ASSERT_EQ(words(fast, text), words(slow, text)) << name;
    }
  }
}

TEST(PreTokenizer, WordsAreTheTextAndSeamsAreBetweenThem) {
  std::mt19937 random(6);
  for (const std::string_view name : PreTokenizer::names()) {
    const PreTokenizer pre(name);
    if (pre.joins_words()) continue;
    for (int i = 0; i < 100; ++i) {
      const std::string left = random_text(random, random() % 9) + "x",
                        right = " " + random_text(random, random() % 9);
      Words parts = words(pre, left);
      const Words behind = words(pre, right);
      parts.insert(parts.end(), behind.begin(), behind.end());
      ASSERT_EQ(words(pre, left + right), parts) << name << ": a letter and a space part";
      std::string joined;
      for (const std::string& part : parts) joined += part;
      ASSERT_EQ(joined, left + right);
    }
  }
}

/// The matches of one expression, which leaves nothing out.
Words matches(const Regex& regex, std::string_view text) {
  Words out;
  Regex::Search search(regex);
  for (std::size_t at = 0; at < text.size();) {
    const auto found = search.next(text, at);
    out.emplace_back(text.substr(found->begin, found->end - found->begin));
    at = found->end;
  }
  return out;
}

TEST(PreTokenizer, WhiteSpaceOfJais2AsItsAuthorsExpressionCutsIt) {
  const PreTokenizer pre("jais-2");
  const Regex authors(PreTokenizer::expressions("jais-2").front());
  std::mt19937 random(7);
  constexpr const char* kParts[] = {" ",  "  ",       "         ", "\n", "\r\n",
                                    "\t", "\xC2\xA0", "a",         "1",  "."};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto n = random() % 16; n > 0; --n) text += kParts[random() % std::size(kParts)];
    ASSERT_EQ(words(pre, text), matches(authors, text)) << text;
  }
  const std::string spaces(8'000'000, ' ');  // quadratic time would take hours
  EXPECT_EQ(words(pre, spaces).size(), spaces.size() / 512);
}

// For each of the runs below, some engine's expression scans the whole rest of the text from every
// position.
TEST(PreTokenizer, LongRunsOfOneCharacterTakeNoSquareOfTheirLength) {
  constexpr std::size_t kLength = 60'000;
  for (const std::string_view name : PreTokenizer::names()) {
    const PreTokenizer pre(name);
    for (const char* c :
         {" ", "\n", "a", "A", "1", "!", "'", "\xC3\xA9", "\xCC\x81", "\xE2\x80\x83"}) {
      std::string text;
      for (std::size_t i = 0; i < kLength; ++i) text += c;
      std::size_t bytes = 0;
      pre.split(text + "x", [&](std::string_view word) { bytes += word.size(); });
      EXPECT_EQ(bytes, text.size() + 1) << name;
    }
  }
}

}  // namespace
}  // namespace cria
