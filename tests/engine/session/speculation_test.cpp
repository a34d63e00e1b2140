// Drafts change no answer: neither its tokens, nor what is said of them, nor what the session
// holds afterwards.
#include "engine/session/draft_control.h"
#include "engine/session/draft_model.h"

#include <gtest/gtest.h>

#include "engine/constrain/constraint.h"
#include "engine/execute/executor.h"
#include "engine/scheduler.h"
#include "tests/engine/demo.h"
#include "tests/engine/session/bigram_model.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

struct Spoken {
  GenerateResult result;
  std::vector<TokenId> held;
  std::vector<float> after;
};

Spoken speak_with(const Model& model, std::shared_ptr<const Model> draft,
                  std::span<const TokenId> prompt, const GenerateOptions& options) {
  SessionOptions wanted;
  wanted.n_ctx = 400;
  wanted.threads = 2;
  wanted.draft = std::move(draft);
  Session session(model, wanted);
  Spoken spoken{session.generate(prompt, options), {}, {}};
  spoken.held.assign(session.tokens().begin(), session.tokens().end());
  const TokenId next = 5;
  spoken.after = copy(session.eval({&next, 1}));
  return spoken;
}

void expect_same(const Spoken& got, const Spoken& want) {
  EXPECT_EQ(got.result.tokens, want.result.tokens);
  EXPECT_EQ(got.result.text, want.result.text);
  EXPECT_EQ(got.result.reason, want.result.reason);
  ASSERT_EQ(got.result.logprobs.size(), want.result.logprobs.size());
  for (std::size_t i = 0; i < want.result.logprobs.size(); ++i)
    EXPECT_EQ(got.result.logprobs[i].logprob, want.result.logprobs[i].logprob);
  EXPECT_EQ(got.held, want.held);
  EXPECT_TRUE(same_bytes(got.after, want.after));
}

// Whatever was drawn last is followed by what is not drawn next.
std::vector<TokenId> always_wrong(std::span<const TokenId> prompt,
                                  std::span<const TokenId> answer) {
  std::vector<TokenId> text(prompt.begin(), prompt.end()), wrong;
  text.insert(text.end(), answer.begin(), answer.end());
  for (std::size_t i = prompt.size(); i < text.size(); ++i) {
    const TokenId other = text[i] == 9 ? 10 : 9;
    wrong.insert(wrong.end(), {text[i - 2], text[i - 1], other, other});
  }
  return wrong;
}

std::vector<TokenId> joined(std::span<const TokenId> prompt, std::span<const TokenId> answer) {
  std::vector<TokenId> text(prompt.end() - 2, prompt.end());
  text.insert(text.end(), answer.begin(), answer.end());
  return text;
}

std::vector<GenerateOptions> ways_to_draw() {
  std::vector<GenerateOptions> ways;
  for (const float temperature : {0.0F, 0.7F, 2.0F}) {
    for (int kind = 0; kind < 4; ++kind) {
      GenerateOptions options = greedy(30);
      options.sampler.temperature = temperature;
      options.sampler.seed = 7 + static_cast<std::uint64_t>(kind);
      if (kind == 1) options.sampler.repeat_penalty = 1.2F;
      if (kind == 2) options.sampler.dry_multiplier = 0.8F;
      if (kind == 3) options.sampler.mirostat = 2;
      options.logprobs = 1;
      options.ignore_eos = kind % 2 == 0;
      if (kind == 3) options.stop = {"a"};
      ways.push_back(options);
    }
  }
  return ways;
}

TEST(Speculation, ChangesNoAnswer) {
  const std::shared_ptr<const Model> small = TinyModel().load();
  TinyModel other_tiny;
  other_tiny.n_layers = 1;
  other_tiny.n_kv_heads = {2};
  const std::shared_ptr<const Model> other = other_tiny.load();
  const std::vector<TokenId> prompt = {1, 20, 30, 40, 20, 30, 40, 20, 30};
  std::size_t drafted = 0, kept = 0;
  for (const GenerateOptions& way : ways_to_draw()) {
    GenerateOptions options = way;
    options.speculate = Speculate::Off;
    const Spoken want = speak_with(*small, nullptr, prompt, options);
    EXPECT_EQ(want.result.drafted, 0U);
    const auto try_with = [&](Speculate speculate, const std::vector<TokenId>& expected,
                              const std::shared_ptr<const Model>& draft) {
      options.speculate = speculate;
      options.expected = expected;
      const Spoken got = speak_with(*small, draft, prompt, options);
      expect_same(got, want);
      drafted += got.result.drafted;
      kept += got.result.accepted;
      EXPECT_LE(got.result.accepted, got.result.drafted);
      return got.result;
    };
    try_with(Speculate::Lookup, {}, nullptr);
    try_with(Speculate::Auto, {}, nullptr);
    try_with(Speculate::Auto, {}, small);
    try_with(Speculate::Auto, {}, other);
    const auto wrong =
        try_with(Speculate::Lookup, always_wrong(prompt, want.result.tokens), nullptr);
    const auto right = try_with(Speculate::Lookup, joined(prompt, want.result.tokens), nullptr);
    EXPECT_LE(wrong.accepted * 4, wrong.drafted);
    if (want.result.tokens.size() > 20 && way.sampler.temperature == 2) {
      EXPECT_GT(right.accepted, 10U);
    }
  }
  EXPECT_GT(kept, 0U);
  EXPECT_GT(drafted, kept);
}

// Tokens forced by a constraint are drafted: the answer is the same, in fewer passes.
TEST(Speculation, ForcedTextIsADraft) {
  const std::vector<TokenId> prompt = demo_model().tokenizer().encode("Once", true, false);
  GenerateOptions options = greedy(150);
  options.constraint =
      Constraint::regex("(Paris is the capital of [A-Z][a-z]{3,9}\\. ){2}The end\\.");
  options.speculate = Speculate::Off;
  const Spoken want = speak_with(demo_model(), nullptr, prompt, options);
  EXPECT_NE(want.result.text.find("The end."), std::string::npos) << want.result.text;
  EXPECT_EQ(want.result.reason, StopReason::EndOfGeneration);
  EXPECT_FALSE(want.result.end_token);  // nothing could follow: none was drawn
  options.speculate = Speculate::Lookup;
  const Spoken got = speak_with(demo_model(), nullptr, prompt, options);
  expect_same(got, want);
  EXPECT_GT(got.result.accepted, 5U);
  Engine engine(demo_model(), {});
  Scheduler scheduler(engine);
  AnswerRequest request;
  request.prompt = prompt;
  request.options = options;
  request.on_end = [&](const GenerateResult& result, const std::optional<Error>&) {
    EXPECT_EQ(result.tokens, want.result.tokens);
    EXPECT_GT(result.accepted, 5U);
  };
  scheduler.add(std::move(request));
  while (scheduler.step()) continue;
}

// Drafts of forced text that exceed the budget are given up.
TEST(Speculation, ExpensiveForcedTextFailsNoAnswer) {
  const std::vector<TokenId> prompt = demo_model().tokenizer().encode("Once", true, false);
  GenerateOptions dear = greedy(40), plain = greedy(60);
  const char* const grammar = "root ::= x{256} \"b\"\nx ::= \"a\"{1,256}\n";
  dear.constraint = Constraint::gbnf(grammar);
  plain.ignore_eos = true;
  dear.speculate = Speculate::Off;
  const Spoken want_dear = speak_with(demo_model(), nullptr, prompt, dear);
  const Spoken want_plain = speak_with(demo_model(), nullptr, prompt, plain);
  for (const Speculate speculate : {Speculate::Lookup, Speculate::Auto}) {
    dear.constraint = Constraint::gbnf(grammar);
    dear.speculate = speculate;
    expect_same(speak_with(demo_model(), nullptr, prompt, dear), want_dear);
    dear.constraint = Constraint::gbnf(grammar);
    Engine engine(demo_model(), {});
    Scheduler scheduler(engine);
    std::vector<TokenId> got_plain, got_dear;
    const auto add = [&](const GenerateOptions& options, std::vector<TokenId>& got) {
      AnswerRequest request;
      request.prompt = prompt;
      request.options = options;
      request.on_end = [&got](const GenerateResult& result, const std::optional<Error>& error) {
        EXPECT_FALSE(error.has_value());
        got = result.tokens;
      };
      scheduler.add(std::move(request));
    };
    add(plain, got_plain);
    add(dear, got_dear);
    while (scheduler.step()) continue;
    EXPECT_EQ(got_plain, want_plain.result.tokens);
    EXPECT_EQ(got_dear, want_dear.result.tokens);
  }
}

TEST(Speculation, AtTheEndOfTheContextAndOverAShift) {
  for (const bool shift : {false, true}) {
    for (const Speculate speculate : {Speculate::Off, Speculate::Lookup}) {
      static std::vector<TokenId> want[2];
      SessionOptions small;
      small.n_ctx = 40;
      small.context_shift = shift;
      Session session(demo_model(), small);
      GenerateOptions options = greedy(shift ? 60 : -1);
      options.ignore_eos = true;
      options.speculate = speculate;
      const std::vector<TokenId> prompt = {1,   300, 301, 302, 300, 301,
                                           302, 300, 301, 302, 300, 301};
      const GenerateResult result = session.generate(prompt, options);
      std::vector<TokenId> seen = result.tokens;
      seen.insert(seen.end(), session.tokens().begin(), session.tokens().end());
      if (speculate == Speculate::Off) want[shift] = seen;
      EXPECT_EQ(seen, want[shift]) << shift;
    }
  }
}

// Also where what a shift has moved is read again, in several passes.
TEST(Speculation, CountsEvaluatedDraftTokens) {
  std::size_t rows[2] = {};
  for (const Speculate speculate : {Speculate::Off, Speculate::Lookup}) {
    Session session(demo_model(), {.n_ctx = 40, .n_batch = 8, .context_shift = true});
    const Node* const first_node = &session.graph().nodes.front();
    std::size_t& evaluated = rows[speculate == Speculate::Lookup];
    session.observe([&](const Node& node, std::span<const float> values, std::size_t width) {
      if (&node == first_node) evaluated += values.size() / width;
    });
    GenerateOptions options = greedy(60);
    options.ignore_eos = true;
    options.speculate = speculate;
    const std::vector<TokenId> prompt = {1, 300, 301, 302, 300, 301, 302, 300, 301, 302, 300, 301};
    const GenerateResult result = session.generate(prompt, options);
    EXPECT_GE(result.shifts, 2U);
    EXPECT_EQ(result.drafted > 0, speculate == Speculate::Lookup);
    EXPECT_EQ(evaluated, rows[0] + result.drafted - result.accepted);
  }
}

TEST(Speculation, LooksUpTheLatestLongestOccurrence) {
  std::vector<TokenId> draft;
  const std::vector<TokenId> text = {1, 2, 3, 4, 9, 2, 3, 5, 9, 1, 2, 3};
  EXPECT_EQ(ngram_draft(text, {}, 3, draft), 3U) << "1 2 3 before 2 3";
  EXPECT_EQ(draft, (std::vector<TokenId>{4, 9, 2}));
  const std::vector<TokenId> period = {7, 8, 7, 8};
  EXPECT_EQ(ngram_draft(period, {}, 5, draft), 2U);
  EXPECT_EQ(draft, (std::vector<TokenId>{7, 8, 7, 8, 7})) << "the match overlaps the end";
  EXPECT_EQ(ngram_draft(std::vector<TokenId>{1, 2, 3}, {}, 5, draft), 0U);
  EXPECT_TRUE(draft.empty());
  EXPECT_EQ(ngram_draft(text, std::vector<TokenId>{2, 3, 6, 6}, 5, draft), 2U)
      << "what is expected goes first";
  EXPECT_EQ(draft, (std::vector<TokenId>{6, 6}));
}

// A machine with made-up times, on which an answer is written.
struct MadeUpMachine {
  DraftControl control;
  double
      first = 0.3,
      each =
          0.1;  // cost of a second token, and of each further one, relative to a pass of one token
  double disturbed = 1;  // how much longer everything takes now
  std::size_t agree = 6;

  [[nodiscard]] double cost(std::size_t drafts) const {
    return drafts == 0 ? 1 : 1 + first + each * static_cast<double>(drafts);
  }
  /// Runs a pass in which all drafts are accepted or all rejected. Returns their number.
  std::size_t pass(bool right) {
    const std::size_t n = control.length(agree);
    control.passed(agree, n, right ? n : 0, 0.010 * disturbed * cost(n));
    return n;
  }
  /// Decodes `tokens` tokens. Returns the number of passes.
  std::size_t write(std::size_t tokens, bool right) {
    std::size_t passes = 0;
    for (std::size_t written = 0; written < tokens; ++passes)
      written += right ? pass(true) + 1 : (pass(false), 1);
    return passes;
  }
};

TEST(Speculation, DraftsAsFarAsItPays) {
  MadeUpMachine cheap;
  EXPECT_EQ(cheap.pass(true), 0U) << "no pass has been measured";
  EXPECT_LE(cheap.write(60, true), 20U);
  EXPECT_GT(cheap.control.length(20), 8U);
  EXPECT_EQ(cheap.control.length(0), 0U) << "no match, so no draft";
  MadeUpMachine dear;  // each token costs as much as a pass
  dear.first = 0;
  dear.each = 1;
  std::size_t drafted = 0;
  for (int i = 0; i < 200; ++i) drafted += dear.pass(false);
  EXPECT_LE(drafted, 10U);
}

TEST(Speculation, ASlowMomentIsOutvoted) {
  MadeUpMachine machine;
  machine.write(300, true);
  machine.disturbed = 20;
  machine.pass(true);
  machine.disturbed = 1;
  EXPECT_LE(machine.write(64, true), 9U) << "drafts are as long as before";
  for (const std::size_t until : {3, 4, 5, 8}) {  // early drafts are slow
    MadeUpMachine young;
    young.write(until, true);
    young.disturbed = 20;
    young.pass(true);
    young.disturbed = 1;
    EXPECT_LE(young.write(96, true), 40U) << until;
    EXPECT_LE(young.write(64, true), 12U) << until;
  }
}

TEST(Speculation, ADisturbedMachineChangesNoRatio) {
  MadeUpMachine machine;
  machine.write(300, true);
  for (const double disturbed : {3.0, 1.0, 5.0, 1.0}) {
    machine.disturbed = disturbed;
    EXPECT_LE(machine.write(150, true), 30U) << disturbed;
  }
  machine.first = 0;  // from now on a pass of many tokens costs a pass for each
  machine.each = 1;
  machine.write(300, true);
  double spent = 0;
  for (int i = 0; i < 300; ++i) {
    const std::size_t n = machine.pass(false);
    spent += machine.cost(n) - 1;
  }
  EXPECT_LE(spent, 0.06 * 300) << "what was earned may be lost, no more";
}

TEST(Speculation, RecoversFromRejectedDrafts) {
  MadeUpMachine machine;
  machine.write(500, false);
  EXPECT_LE(machine.write(100, true), 80U);
  EXPECT_LE(machine.write(64, true), 14U);
}

// Rejected drafts cost a small part of the time.
TEST(Speculation, LosesLittle) {
  for (const double each : {0.1, 0.3, 1.0}) {
    MadeUpMachine machine;
    machine.each = each;
    for (const int passes : {128, 2000}) {
      double lost = 0;
      for (int i = 0; i < passes; ++i) {
        const std::size_t n = machine.pass(false);
        lost += machine.cost(n) - 1;
      }
      EXPECT_LE(lost, (passes == 128 ? 0.04 : 0.025) * passes) << each;
      EXPECT_GT(lost, 0) << "it was tried";
    }
  }
}

// A longer pass delays all concurrent answers. The more of them there are, the shorter drafts
// become.
TEST(Speculation, SharesPassesWithOthers) {
  MadeUpMachine machine;
  machine.first = 0;
  machine.each = 0.05;
  machine.write(300, true);
  DraftControl::Pass alone;
  EXPECT_EQ(machine.control.length(6, alone, &alone.waits), machine.control.length(6));
  EXPECT_LT(alone.waits, 0.25) << "most draft tokens are expected to be accepted";
  std::size_t before = machine.control.length(6);
  for (const double others : {1.0, 2.0, 4.0, 16.0}) {
    DraftControl::Pass shared{1, 1 + others, 1};
    const std::size_t n = machine.control.length(6, shared, &shared.waits);
    EXPECT_LE(n, before) << others;
    EXPECT_EQ(n == 0, shared.waits == 1 + others);
    EXPECT_LE(shared.waits * machine.cost(n), 1 + others) << "all together gain";
    EXPECT_TRUE(n != 0 || others > 2) << "cheap drafts are made";
    before = n;
  }
  EXPECT_EQ(before, 0U) << "a token of one answer is not worth what sixteen others wait";
}

TEST(Speculation, ADraftModelHasTheSameVocabulary) {
  SessionOptions options;
  options.draft = TinyModel().load();
  EXPECT_NE(error_of([&] { Session(demo_model(), options); }).find("expected the same vocabulary"),
            std::string::npos);
}

/// A model that says the last of its tokens after any other.
std::shared_ptr<const Model> padded_model(std::uint32_t n_vocab) {
  TinyModel tiny = bigram_file(
      [n_vocab](std::size_t, std::size_t next) { return next + 1 == n_vocab ? 20.0 : 0.0; });
  tiny.n_vocab = n_vocab;
  return tiny.load();
}

// The vocabularies of a family are padded to different lengths.
TEST(Speculation, ADraftModelMayHaveAnotherPadding) {
  const auto fewer = padded_model(300), more = padded_model(428), too_many = padded_model(429);
  EXPECT_NE(
      error_of([&] { DraftModel(*too_many, *fewer, {}); }).find("expected the same vocabulary"),
      std::string::npos);
  const std::vector<TokenId> plain = {1, 20, 30}, padding = {1, 427, 30};
  std::vector<TokenId> drafted, others;
  DraftModel draft(*more, *fewer, {});
  DraftModel::Text text_of = draft.text(0, true);
  const DraftModel::DraftRequest request{&text_of, plain, 4, &drafted};
  draft.write({&request, 1}, 100, nullptr);
  EXPECT_EQ(drafted.size(), 4U);
  for (const TokenId token : drafted) EXPECT_LT(token, 300);
  // A text with a token that the draft model lacks gets no draft; another one in the same batch
  // does.
  DraftModel small(*fewer, *more, {.sequences = 2});
  DraftModel::Text first = small.text(0, true), second = small.text(0, true);
  const DraftModel::DraftRequest both[] = {{&first, padding, 4, &others},
                                           {&second, plain, 4, &drafted}};
  small.write(both, 100, nullptr);
  EXPECT_TRUE(others.empty());
  EXPECT_EQ(drafted, std::vector<TokenId>(4, 299));
}

// Rare tokens are drafted only in texts that have them.
TEST(Speculation, DraftsFrequentTokensOnly) {
  Vocabulary vocabulary;
  vocabulary.types.assign(100'000, TokenType::Normal);
  vocabulary.types.back() = TokenType::Control;
  const auto rows = [&](TokenId usual, std::size_t n_rare, TokenId rare) {
    std::vector<TokenId> text(400, usual);
    std::ranges::fill(std::span(text).last(n_rare), rare);
    return draft_rows(text, vocabulary);
  };
  EXPECT_EQ(draft_rows({}, vocabulary), kFrequentTokens);
  EXPECT_EQ(rows(7, 16, 90'000), kFrequentTokens) << "a sixteenth of the last 256 tokens";
  EXPECT_EQ(rows(7, 17, 90'000), 90'001U);
  EXPECT_EQ(rows(50'000, 5, 90'000), 50'001U);
  EXPECT_EQ(rows(7, 200, 99'999), kFrequentTokens) << "control tokens";

  const auto model = padded_model(40'000);
  DraftModel draft(*model, *model, {.n_ctx = 64});
  for (const auto& [spoken, drafted] : {std::pair{TokenId{20}, TokenId{0}}, {39'999, 39'999}}) {
    DraftModel::Text seen = draft.text(0, true);
    const std::vector<TokenId> text(20, spoken);
    std::vector<TokenId> written;
    const DraftModel::DraftRequest request{&seen, text, 4, &written};
    draft.write({&request, 1}, 100, nullptr);
    EXPECT_EQ(written, std::vector<TokenId>(4, drafted)) << spoken;
  }
}

// A long text is read piece by piece, and an interrupt is heard meanwhile.
TEST(Speculation, ADraftModelCanBeStopped) {
  const auto model = padded_model(300);
  DraftModel draft(*model, *model, {.n_ctx = 256});
  DraftModel::Text seen = draft.text(0, true);
  const std::vector<TokenId> text(200, 20);
  std::vector<TokenId> drafted;
  const DraftModel::DraftRequest request{&seen, text, 4, &drafted};
  std::atomic<bool> stop = true;
  EXPECT_THROW(draft.write({&request, 1}, 128, &stop), EvaluationStopped);
  EXPECT_EQ(seen.sequence.tokens().size(), 0U);
  stop = false;
  draft.write({&request, 1}, 128, &stop);
  EXPECT_EQ(seen.sequence.tokens().size(), 128U);
  EXPECT_TRUE(drafted.empty());
  stop = true;
  draft.write({&request, 1}, 128, nullptr);
  EXPECT_EQ(drafted, std::vector<TokenId>(4, 299)) << "the flag is forgotten with the call";
}

// Guesses out of a text that is only expected: no token of it needs to be one.
TEST(Speculation, ExpectedTokensMayBeNone) {
  const auto model = TinyModel().load();
  const std::vector<TokenId> prompt = {1, 20, 30, 40, 20, 30};
  GenerateOptions options = greedy(20);
  options.ignore_eos = true;
  options.speculate = Speculate::Off;
  const Spoken want = speak_with(*model, nullptr, prompt, options);
  options.speculate = Speculate::Lookup;
  for (const TokenId none : {-1, 300, 1 << 30}) {
    options.expected = {20, 30, want.result.tokens[0], want.result.tokens[1], none, none};
    const Spoken got = speak_with(*model, nullptr, prompt, options);
    expect_same(got, want);
    EXPECT_GE(got.result.accepted, 1U);
  }
}

}  // namespace
}  // namespace cria::test
