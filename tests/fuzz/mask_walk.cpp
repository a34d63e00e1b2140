#include "tests/fuzz/mask_walk.h"

#include "engine/constrain/token_masks.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

// Every byte, so that a next token always exists, and tokens of JSON and grammars.
std::shared_ptr<const TokenTrie> make_walk_trie() {
  TokenTrie::Texts out;
  for (int byte = 0; byte < 256; ++byte) out.texts.emplace_back(1, static_cast<char>(byte));
  for (const char* const text : {"ab",
                                 "abc",
                                 "name",
                                 " the",
                                 "  ",
                                 "\n  ",
                                 "\": ",
                                 "\", ",
                                 "\", \"",
                                 "{\"",
                                 "\"}",
                                 "}]",
                                 "],",
                                 "true",
                                 "null",
                                 "12",
                                 "-1",
                                 "0.5",
                                 "e+1",
                                 "\\u00e9",
                                 "\\n",
                                 "é",
                                 "東京",
                                 "\xF0\x9F",
                                 "\x98\x80",
                                 "\xC3",
                                 "é\"",
                                 "a\",",
                                 "words and",
                                 "A1_",
                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                 " = ",
                                 "(x",
                                 ")\n",
                                 "x\\"})
    out.texts.emplace_back(text);
  for (const char* const control : {"<tool_call>", "<other>"}) {
    out.controls.emplace_back(static_cast<TokenId>(out.texts.size()), control);
    out.texts.emplace_back();
  }
  out.ends.push_back(static_cast<TokenId>(out.texts.size()));
  out.texts.emplace_back();
  return std::make_shared<const TokenTrie>(std::move(out));
}

bool mask_has(const TokenBits& bits, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return (bits[id / 64] >> id % 64 & 1) != 0;
}

// Computes the mask of a state by the slow definition: the tokens with texts.
std::vector<TokenId> check_mask(const TokenBits& mask, const TokenTrie& trie, Runs& runs,
                                Runs::State state) {
  std::vector<TokenId> allowed;
  for (std::size_t i = 0; i < trie.vocabulary_size; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (trie.text(id).empty()) continue;
    const bool goes_on = runs.next(state, trie.text(id)) != Runs::kDead;
    require(mask_has(mask, id) == goes_on, "mask differs from the tokens' bytes");
    if (goes_on) allowed.push_back(id);
  }
  for (const TokenId end : trie.ends)
    require(mask_has(mask, end) == runs.whole(state), "wrong or missed end");
  return allowed;
}

}  // namespace

void walk_masks(const Constraint& constraint, std::string_view input) {
  static const std::shared_ptr<const TokenTrie> trie = make_walk_trie();
  Random random(static_cast<unsigned>(std::hash<std::string_view>{}(input)));
  Runs runs(constraint.state().automaton);
  for (int walk = 0; walk < 3; ++walk) {
    TokenMasks::Run run(constraint.state().masks(trie), trie);
    Runs::State state = runs.start();
    std::string text;
    for (int step = 0; step < 10; ++step) {
      require(constraint.begins(text + run.forced(64)), "what must follow does not");
      const auto mask = run.mask();
      const std::vector<TokenId> allowed = check_mask(*mask, *trie, runs, state);
      require(!allowed.empty() || runs.whole(state), "text can neither continue nor end");
      require(run.whole() == runs.whole(state), "whole or not");
      require(run.finished() == (run.whole() && allowed.empty()), "finished or not");
      const auto refused = static_cast<TokenId>(random() % trie->vocabulary_size);
      if (!mask_has(*mask, refused))
        require(!run.accept(refused), "accepted a token outside the mask");
      if (allowed.empty()) break;
      const TokenId token = allowed[random() % allowed.size()];
      require(run.accept(token), "a token of the mask is refused");
      state = runs.next(state, trie->text(token));
      text += trie->text(token);
    }
    require(constraint.begins(text), "a text that it does not begin with");
    require(constraint.accepts(text) == runs.whole(state), "whole or not, the second time");
  }
}

}  // namespace cria::fuzz
