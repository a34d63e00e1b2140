// Answers: prompt, then token after token until something ends it.
#include <chrono>
#include <limits>

#include "engine/sample/sampler.h"
#include "engine/session/answer_output.h"
#include "engine/session/common_prefix.h"
#include "engine/session/state.h"
#include "engine/session/token_logprobs.h"

namespace cria {
namespace {

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

SamplerOptions sampler_options(const GenerateOptions& options, const Vocabulary& vocabulary) {
  SamplerOptions sampler = options.sampler;
  if (options.ignore_eos) {
    for (const TokenId id : vocabulary.end_of_generation)
      sampler.logit_bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  }
  return sampler;
}

// While it lives, the flag stops evaluations.
class StopOn {
 public:
  StopOn(Executor& executor, const std::atomic<bool>* flag) : executor_(executor) { executor.stop_on(flag); }
  ~StopOn() { executor_.stop_on(nullptr); }
  StopOn(const StopOn&) = delete;
  StopOn& operator=(const StopOn&) = delete;

 private:
  Executor& executor_;
};

}  // namespace

std::string_view name(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::EndOfGeneration:
      return "end of generation";
    case StopReason::StopString:
      return "stop text";
    case StopReason::Length:
      return "length";
    case StopReason::ContextFull:
      return "context full";
    case StopReason::Interrupted:
      return "interrupted";
  }
  return "";
}

// One call of Session::generate.
class Generation {
 public:
  Generation(Session& session, Session::State& state, const GenerateOptions& options, const TextSink& sink)
      : session_(session),
        state_(state),
        options_(options),
        vocabulary_(state.model().vocabulary()),
        sampler_(sampler_options(options, vocabulary_), state.model().config().n_vocab,
                 &state.model().tokenizer()),
        output_(state.model().tokenizer(), options, sink) {}

  GenerateResult run(std::span<const TokenId> prompt) {
    const StopOn stop_on(state_.engine.state().executor, options_.interrupt);
    std::span<const float> logits;
    const Stopwatch prompt_time;
    try {
      logits = read(fit(prompt));
    } catch (const EvaluationStopped&) {
      result_.reason = StopReason::Interrupted;
    }
    result_.prompt_seconds = prompt_time.seconds();
    const Stopwatch decode_time;
    try {
      if (!logits.empty()) result_.reason = write(logits);
    } catch (const EvaluationStopped&) {
      result_.reason = StopReason::Interrupted;
    }
    output_.finish(result_);
    if (!result_.stop.empty()) result_.reason = StopReason::StopString;
    result_.decode_seconds = decode_time.seconds();
    return std::move(result_);
  }

 private:
  // The prompt, or what context shifts leave of it if it is too long.
  std::vector<TokenId> fit(std::span<const TokenId> prompt) {
    if (prompt.empty()) throw Error("nothing to continue: the prompt has no tokens");
    keep_ = std::max<std::size_t>(options_.keep, vocabulary_.bos == prompt.front() ? 1 : 0);
    std::vector<TokenId> tokens(prompt.begin(), prompt.end());
    const std::size_t n_ctx = session_.options().n_ctx;
    while (tokens.size() > n_ctx) {
      if (!session_.options().context_shift || keep_ + 1 >= n_ctx)
        throw state_.model().file().error("the prompt does not fit: expected at most " +
                                          std::to_string(n_ctx) + " tokens (the context), got " +
                                          std::to_string(tokens.size()));
      tokens = shifted(tokens);
    }
    return tokens;
  }

  // Evaluates what the cache does not hold already.
  std::span<const float> read(const std::vector<TokenId>& prompt) {
    const std::size_t known =
        session_.truncate(std::min(common_prefix(session_.tokens(), prompt), prompt.size() - 1));
    result_.cached_tokens = known;
    const auto tell = [&] {
      if (options_.progress) options_.progress(result_.prompt_tokens, prompt.size() - known);
    };
    tell();
    std::span<const float> logits;
    for (std::size_t n = 0, done = known; done < prompt.size(); done += n) {
      n = std::min<std::size_t>(session_.options().n_batch, prompt.size() - done);
      logits = session_.eval(std::span(prompt).subspan(done, n));
      result_.prompt_tokens += n;
      tell();
    }
    return logits;
  }

  StopReason write(std::span<const float> logits) {
    for (;;) {
      if (options_.interrupt != nullptr && *options_.interrupt) return StopReason::Interrupted;
      if (options_.max_tokens >= 0 && result_.tokens.size() >= static_cast<std::size_t>(options_.max_tokens))
        return StopReason::Length;
      const TokenId token = sampler_.next(logits, session_.tokens());
      if (std::ranges::count(vocabulary_.end_of_generation, token) != 0) return StopReason::EndOfGeneration;
      result_.tokens.push_back(token);
      output_.push(token);
      if (options_.logprobs && output_.in_answer())
        result_.logprobs.push_back(token_logprobs(logits, token, *options_.logprobs));
      if (!output_.stop().empty()) return StopReason::StopString;
      if (output_.refused()) return StopReason::Interrupted;
      if (session_.tokens().size() < session_.options().n_ctx) {
        logits = session_.eval({&token, 1});
      } else if (session_.options().context_shift && keep_ + 1 < session_.options().n_ctx) {
        logits = shift(token);
      } else {
        return StopReason::ContextFull;
      }
    }
  }

  // Without the oldest half of what follows the kept prefix.
  std::vector<TokenId> shifted(std::span<const TokenId> tokens) {
    const std::size_t dropped = std::max<std::size_t>(1, (tokens.size() - keep_) / 2);
    std::vector<TokenId> rest(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(keep_));
    rest.insert(rest.end(), tokens.begin() + static_cast<std::ptrdiff_t>(keep_ + dropped), tokens.end());
    ++result_.shifts;
    return rest;
  }

  // Keys and values depend on their positions and on all that came before: they are computed anew, so that
  // the answer is that of a session which had never seen the dropped part.
  std::span<const float> shift(TokenId next) {
    std::vector<TokenId> tokens = shifted(session_.tokens());
    tokens.push_back(next);
    return session_.eval(std::span(tokens).subspan(session_.truncate(keep_)));
  }

  Session& session_;
  Session::State& state_;
  const GenerateOptions& options_;
  const Vocabulary& vocabulary_;
  Sampler sampler_;
  AnswerOutput output_;
  std::size_t keep_ = 0;
  GenerateResult result_;
};

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                 const TextSink& sink) {
  return Generation(*this, *state_, options, sink).run(prompt);
}

}  // namespace cria
