// DRY against its definition, read word by word.
#include "engine/sample/filters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/sample/sampler.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria::test {
namespace {

// The longest end of the text, without a breaker, that stood before with `next` after it.
std::size_t repetition(const std::vector<TokenId>& text, TokenId next,
                       const std::set<TokenId>& breakers) {
  std::size_t longest = 0;
  for (std::size_t at = 1; at < text.size(); ++at) {  // text[at] is the token after
    if (text[at] != next) continue;
    std::size_t n = 0;
    while (n < at && text[at - 1 - n] == text[text.size() - 1 - n] &&
           !breakers.contains(text[at - 1 - n]))
      ++n;
    longest = std::max(longest, n);
  }
  return longest;
}

std::vector<double> penalized(const SamplerOptions& options, const std::vector<TokenId>& text,
                              std::size_t n_vocab, const Tokenizer* tokenizer = nullptr) {
  std::vector<Candidate> list;
  for (std::size_t i = 0; i < n_vocab; ++i) list.push_back({static_cast<TokenId>(i), 1.5, 0});
  Dry dry(options, n_vocab, tokenizer);
  for (int i = 0; i < 2; ++i) {  // the second time as the first
    for (Candidate& c : list) c.logit = 1.5;
    dry.apply(list, text);
  }
  std::vector<double> logits;
  for (const Candidate& c : list) logits.push_back(c.logit);
  return logits;
}

SamplerOptions dry_options(std::int32_t allowed, std::int32_t last_n = -1) {
  SamplerOptions options;
  options.dry_multiplier = 0.8F;
  options.dry_base = 1.5F;
  options.dry_allowed_length = allowed;
  options.dry_last_n = last_n;
  options.dry_sequence_breakers = {};
  return options;
}

void expect_definition(const std::vector<double>& got, const std::vector<TokenId>& text,
                       const std::set<TokenId>& breakers, double allowed) {
  for (std::size_t id = 0; id < got.size(); ++id) {
    const auto next = static_cast<TokenId>(id);
    const auto n = static_cast<double>(repetition(text, next, breakers));
    const bool free = n < 1 || n < allowed || breakers.contains(next);
    const double penalty = free ? 0 : 0.8F * std::pow(1.5, n - allowed);
    EXPECT_NEAR(got[id], 1.5 - penalty, 1e-9) << id << " after " << text.size();
  }
}

TEST(Dry, IsTheDefinition) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const auto n_vocab = static_cast<std::size_t>(1 + random.uniform() * 4);
    std::vector<TokenId> text(static_cast<std::size_t>(random.uniform() * 30));
    for (TokenId& id : text)
      id = static_cast<TokenId>(random.uniform() * static_cast<double>(n_vocab));
    const auto allowed = static_cast<std::int32_t>(random.uniform() * 4);
    expect_definition(penalized(dry_options(allowed), text, n_vocab), text, {}, allowed);
    const auto last = static_cast<std::size_t>(random.uniform() * 12);
    const std::vector<TokenId> end(
        text.end() - static_cast<std::ptrdiff_t>(std::min(last, text.size())), text.end());
    expect_definition(
        penalized(dry_options(allowed, static_cast<std::int32_t>(last)), text, n_vocab), end, {},
        allowed);
  }
}

TEST(Dry, BreakersEndRepetitionsAndAreFree) {
  const Tokenizer& tokenizer = demo_model().tokenizer();
  const std::size_t n_vocab = demo_model().config().n_vocab;
  SamplerOptions options = dry_options(2);
  options.dry_sequence_breakers = {"\n", ":"};
  std::set<TokenId> breakers;
  for (std::size_t id = 0; id < n_vocab; ++id) {
    const std::string piece = tokenizer.piece(static_cast<TokenId>(id), true);
    if (piece.find_first_of("\n:") != std::string::npos) breakers.insert(static_cast<TokenId>(id));
  }
  for (const char* words :
       {"a cat sat on a mat: a cat sat on a mat: a cat sat", "one two\none two\none two",
        "to be or not to be or not to be or", "say: say: say:"}) {
    const std::vector<TokenId> text = tokenizer.encode(words, false, false);
    expect_definition(penalized(options, text, n_vocab, &tokenizer), text, breakers, 2);
  }
}

TEST(Dry, LongRepetitionsAreNeverGoneOnWith) {
  SamplerOptions options = dry_options(2);
  options.temperature = 0;
  const std::vector<TokenId> text(5000, 1);  // the penalty is infinite
  EXPECT_EQ(Sampler(options, 3).next(std::vector<float>{0, 3e38F, 1}, text), 2);
  options.steps = parse_sampler_steps("penalties");
  EXPECT_EQ(Sampler(options, 3).next(std::vector<float>{0, 3e38F, 1}, text), 1);
}

}  // namespace
}  // namespace cria::test
