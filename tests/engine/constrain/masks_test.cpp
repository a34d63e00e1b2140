// Masks follow the slow definition: a token is allowed if some complete text continues with its
// bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/constrain/token_masks.h"
#include "tests/engine/random.h"

namespace cria {
namespace {

class MaskRandom : public test::Random {
 public:
  using Random::Random;
  std::size_t below(std::size_t n) { return next() % n; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }
};

// Pieces of which tokens are made: what JSON and the constraints below are written with, halves of
// characters too.
constexpr std::string_view kPieces[] = {
    "a",        "b",    "ab", "name", "Z",        "_",        "7",    "42",
    " ",        "  ",   "\n", "\"",   "\", ",     "\": \"",   "{",    "}",
    "[",        "]",    ",",  ":",    "\\",       "\\u00e9",  "-",    ".5",
    "e",        "true", "é",  "東京", "\xF0\x9F", "\xA6",     "\xC3", "\x7F",
    "\t",       "\xFF", "(",  ")",    "+",        "=",        "x",    "null",
    "\xE2\x80", "😀",    "1",  "\"}",  "abcdefgh", "\xED\xA0", "é\"",  "words and "};

std::shared_ptr<const TokenTrie> made_vocabulary(MaskRandom& random) {
  TokenTrie::Texts out;
  for (int byte = 0; byte < 256; ++byte) out.texts.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 300; ++i) {
    std::string text;
    const std::size_t pieces = i % 10 == 0 ? 5 + random.below(20) : 1 + random.below(4);
    for (std::size_t n = 0; n < pieces; ++n) text += random.one_of(kPieces);
    out.texts.push_back(text);
  }
  for (const std::size_t n : {31, 32, 33, 40}) out.texts.emplace_back(n, 'a');
  out.texts.emplace_back(std::string(40, 'a') + '"');
  for (const char* const control : {"<tool_call>", "</tool_call>", "<other>"}) {
    out.controls.emplace_back(static_cast<TokenId>(out.texts.size()), control);
    out.texts.emplace_back();
  }
  out.ends.push_back(static_cast<TokenId>(out.texts.size()));
  out.texts.emplace_back();
  return std::make_shared<const TokenTrie>(std::move(out));
}

std::vector<std::shared_ptr<const Constraint>> constraints() {
  std::vector<std::shared_ptr<const Constraint>> out{Constraint::any_object()};
  for (const char* const schema :
       {R"({"type":"string"})", R"({"type":"string","maxLength":7})",
        R"({"type":"string","minLength":40})", R"({"type":"string","minLength":3,"maxLength":36})",
        R"({"type":"string","pattern":"^[a-z]+$"})", R"({"type":"string","pattern":"^.{2,9}$"})",
        R"({"type":"string","pattern":"name","maxLength":20})",
        R"({"type":"object","properties":{"name":{"type":"string"},"ab":{"type":"integer"}}})",
        R"({"enum":["ab","name","é",1,null]})",
        R"({"anyOf":[{"type":"string","maxLength":3},{"enum":["abab","aaaaaa"]}]})",
        R"({"type":"array","items":{"$ref":"#"}})",
        R"({"type":"array","items":{"type":"string"},"maxItems":2})",
        R"({"type":"object","additionalProperties":{"type":"string"}})",
        R"({"type":"string","pattern":"^[^é]*$"})"})
    out.push_back(Constraint::json_schema(schema));
  for (const char* const grammar :
       {"root ::= (expr \"=\" expr \"\\n\")+\nexpr ::= item ([-+] item)*\nitem ::= [a-z] "
        "[a-z0-9_]* | [0-9]+ "
        "| \"(\" expr \")\"",
        "root ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" [\"nu])* \"\\\"\"",
        "root ::= [a-zA-Z]{2,35} \"x\"?", "root ::= \"a\" root \"b\" | [é東] root \"c\" | \"\"",
        "root ::= [ab]* | [a-c]* \"x\" | .*"})
    out.push_back(Constraint::gbnf(grammar));
  for (const char* const expression :
       {R"(\w+( \w+)*)", R"([^"\\]*)", R"(([a-zA-Z_0-9]{3}|[a-z]{5})+)", R"(.*)", R"([ -~]{0,50})",
        R"([a-z]*é[a-z]*)"})
    out.push_back(Constraint::regex(expression));
  ToolChoice choice{
      CallForm::Hermes,
      R"([{"type":"function","function":{"name":"ab","parameters":{"type":"object"}}}])", "", true};
  out.push_back(Constraint::tool_calls(choice));
  return out;
}

// A vocabulary and an automaton: the slow definition.
class SlowMasks {
 public:
  SlowMasks(const Automaton& automaton, const TokenTrie& trie)
      : automaton_(automaton), trie_(trie), runs_(automaton), state_(runs_.start()) {}

  TokenBits mask() {
    TokenBits bits((trie_.vocabulary_size + 63) / 64);
    for (std::size_t id = 0; id < trie_.vocabulary_size; ++id)
      if (after(static_cast<TokenId>(id)) != Runs::kDead)
        allow_token(bits, static_cast<TokenId>(id));
    for (const TokenId id : trie_.ends)
      if (runs_.whole(state_)) allow_token(bits, id);
    return bits;
  }
  void accept(TokenId token) { state_ = after(token); }

 private:
  Runs::State after(TokenId token) {
    for (const auto& [id, text] : trie_.controls) {
      if (id != token) continue;
      const auto found = std::ranges::find(automaton_.markers, text);
      const auto marker = static_cast<std::size_t>(found - automaton_.markers.begin());
      const std::size_t symbol =
          found == automaton_.markers.end() ? Automaton::kOtherControl : 256 + marker;
      return runs_.next(state_, automaton_.class_of[symbol]);
    }
    const std::string_view text = trie_.text(token);
    return text.empty() ? Runs::kDead : runs_.next(state_, text);
  }

  const Automaton& automaton_;
  const TokenTrie& trie_;
  Runs runs_;
  Runs::State state_;
};

std::vector<TokenId> tokens_of(const TokenBits& bits) {
  std::vector<TokenId> out;
  for (std::size_t id = 0; id < 64 * bits.size(); ++id)
    if ((bits[id / 64] >> id % 64 & 1) != 0) out.push_back(static_cast<TokenId>(id));
  return out;
}

TEST(Masks, EqualTheSlowDefinition) {
  MaskRandom random(1);
  const auto trie = made_vocabulary(random);
  const auto all = constraints();
  for (std::size_t c = 0; c < all.size(); ++c) {
    const Automaton& automaton = all[c]->state().automaton;
    for (int walk = 0; walk < 4; ++walk) {
      TokenMasks::Run run(all[c]->state().masks(trie), trie);
      SlowMasks slow(automaton, *trie);
      std::string text;
      for (int step = 0; step < 30; ++step) {
        const TokenBits expected = slow.mask();
        ASSERT_EQ(tokens_of(*run.mask()), tokens_of(expected))
            << "constraint " << c << " after " << text;
        const std::vector<TokenId> allowed = tokens_of(expected);
        const TokenId drawn = random.one_of(allowed);
        if (std::ranges::count(trie->ends, drawn) != 0) break;
        ASSERT_TRUE(run.accept(drawn));
        slow.accept(drawn);
        text += trie->text(drawn);
      }
    }
  }
}

TEST(Masks, RejectDisallowedTokens) {
  MaskRandom random(2);
  const auto trie = made_vocabulary(random);
  const auto string = Constraint::json_schema(R"({"type":"string","maxLength":3})");
  TokenMasks::Run run(string->state().masks(trie), trie);
  EXPECT_FALSE(run.accept('a'));
  EXPECT_FALSE(run.accept(-1));
  EXPECT_FALSE(run.accept(static_cast<TokenId>(trie->vocabulary_size)));
  EXPECT_TRUE(run.accept('"'));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.accept('a'));
  EXPECT_FALSE(run.accept('a'));
  EXPECT_EQ(run.forced(8), "\"");
  EXPECT_TRUE(run.accept('"'));
  EXPECT_TRUE(run.finished());
}

TEST(Masks, AllowTokensNamedByAGrammar) {
  MaskRandom random(5);
  const auto trie = made_vocabulary(random);
  const TokenId call = trie->controls[0].first, end = trie->controls[1].first,
                other = trie->controls[2].first;
  const auto grammar =
      Constraint::gbnf("root ::= <tool_call> [a-z]* <[" + std::to_string(other) + "]> \"ok\"");
  TokenMasks::Run run(grammar->state().masks(trie), trie);
  EXPECT_FALSE(run.accept('a'));
  EXPECT_TRUE(run.accept(call));
  EXPECT_TRUE(run.accept('a'));
  EXPECT_FALSE(run.accept(end));
  EXPECT_TRUE(run.accept(other));
  EXPECT_EQ(run.forced(8), "ok");
}

TEST(Masks, RejectIdsOfTokensWithText) {
  MaskRandom random(5);
  const auto trie = made_vocabulary(random);
  for (const char* const id : {"97", "999999", "a"}) {
    const auto grammar = Constraint::gbnf("root ::= \"a\" <[" + std::string(id) + "]>");
    EXPECT_THROW((void)grammar->state().masks(trie), ConstraintError) << id;
  }
}

// !<…>* is text without the token, whether that is a control token or written in bytes.
TEST(Masks, ExcludeATokenOfAGrammar) {
  MaskRandom random(5);
  const auto trie = made_vocabulary(random);
  const TokenId call = trie->controls[0].first, end = trie->controls[1].first,
                other = trie->controls[2].first;
  const auto write = [](TokenMasks::Run& run, std::string_view text) {
    return std::ranges::all_of(text, [&](char c) { return run.accept(static_cast<TokenId>(c)); });
  };
  const std::string by_id = "<[" + std::to_string(end) + "]>";
  for (const std::string& named : {trie->controls[1].second, by_id}) {
    const auto grammar = Constraint::gbnf("root ::= <tool_call> text " + named +
                                          " \"ok\"\ntext ::= !" + named + "*");
    TokenMasks::Run run(grammar->state().masks(trie), trie);
    EXPECT_FALSE(run.accept(end));
    EXPECT_TRUE(run.accept(call) && write(run, "a < b\n") && run.accept(other) && write(run, "c"));
    EXPECT_TRUE(run.accept(end));
    EXPECT_EQ(run.forced(8), "ok");
  }
  const auto some = Constraint::gbnf("root ::= !</tool_call>+ \"</tool_call>\"");
  for (const char* const good : {"x</tool_call>", "</tool_cal</tool_call>"})
    EXPECT_TRUE(some->accepts(good)) << good;
  for (const char* const bad : {"</tool_call>", "x</tool_call></tool_call>", "x"})
    EXPECT_FALSE(some->accepts(bad)) << bad;
}

constexpr const char* kDearGrammar = "root ::= x{256} \"b\"\nx ::= \"a\"{1,256}\n";

// One "a" of 65536 at most, and always the only byte: states are found until it costs too much.
TEST(Masks, WhatMustFollowIsFoundAtLittleCost) {
  MaskRandom random(3);
  const auto trie = made_vocabulary(random);
  const auto dear = Constraint::gbnf(kDearGrammar);
  TokenMasks::Run run(dear->state().masks(trie), trie);
  for (int i = 0; i < 3; ++i) {
    const std::string text = run.forced(256);
    EXPECT_GT(text.size(), 2U);
    EXPECT_LT(text.size(), 256U);
    EXPECT_EQ(text, std::string(text.size(), 'a'));
  }
}

// The masks, up to the same error, do not depend on calls of forced().
TEST(Masks, ForcedTextChangesNoMask) {
  MaskRandom random(4);
  const auto trie = made_vocabulary(random);
  const auto asked = constraints(), not_asked = constraints();
  for (std::size_t c = 0; c < asked.size(); ++c) {
    TokenMasks::Run one(asked[c]->state().masks(trie), trie),
        other(not_asked[c]->state().masks(trie), trie);
    for (int step = 0; step < 30; ++step) {
      (void)one.forced(256);
      const std::vector<TokenId> allowed = tokens_of(*other.mask());
      ASSERT_EQ(tokens_of(*one.mask()), allowed) << "constraint " << c;
      ASSERT_EQ(asked[c]->memory(), not_asked[c]->memory()) << "constraint " << c;
      const TokenId drawn = random.one_of(allowed);
      if (std::ranges::count(trie->ends, drawn) != 0) break;
      ASSERT_TRUE(one.accept(drawn) && other.accept(drawn));
    }
  }
  const auto masks_of_dear = [&trie](bool ask) {
    const auto dear = Constraint::gbnf(kDearGrammar);
    TokenMasks::Run run(dear->state().masks(trie), trie);
    std::vector<std::size_t> memory;
    try {
      while (memory.size() < 5000) {
        if (ask) (void)run.forced(256);
        (void)run.mask();
        memory.push_back(dear->memory());
        if (!run.accept('a')) break;
      }
    } catch (const ConstraintError&) {
    }
    return memory;
  };
  const std::vector<std::size_t> memory = masks_of_dear(false);
  EXPECT_GT(memory.size(), 10U);
  EXPECT_LT(memory.size(), 5000U) << "costs too much at last";
  EXPECT_EQ(masks_of_dear(true), memory);
}

}  // namespace
}  // namespace cria
