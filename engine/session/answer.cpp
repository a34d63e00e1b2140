#include "engine/session/answer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/model_parts.h"
#include "model/plural.h"

namespace cria {
namespace {

SamplerOptions sampler_options(const GenerateOptions& options, const Vocabulary& vocabulary) {
  SamplerOptions sampler = options.sampler;
  const auto never = [&sampler](const std::vector<TokenId>& tokens) {
    for (const TokenId id : tokens)
      sampler.logit_bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  };
  never(vocabulary.suppressed);
  if (options.ignore_eos) {
    never(vocabulary.end_of_generation);
    never(options.end_tokens);
  }
  return sampler;
}

std::span<const TokenId> known_part(std::span<const TokenId> text, std::size_t n_vocab) {
  const auto known = [n_vocab](TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < n_vocab;
  };
  return text.first(static_cast<std::size_t>(std::ranges::find_if_not(text, known) - text.begin()));
}

// Logarithm of the sum of exponentials.
double log_sum_of(std::span<const float> logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  const double sum =
      std::accumulate(logits.begin(), logits.end(), 0.0, [&](double total, float logit) {
        return total + std::exp(static_cast<double>(logit) - highest);
      });
  return highest + std::log(sum);
}

// Log-probabilities of a token and of the n most likely ones.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, std::size_t n) {
  const double log_sum = log_sum_of(logits);
  const auto logprob = [&](TokenId of) {
    return static_cast<float>(logits[static_cast<std::size_t>(of)] - log_sum);
  };
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  n = std::min(n, ids.size());
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(ids.begin(), end, ids.end(), [&](TokenId a, TokenId b) {
    const float left = logits[static_cast<std::size_t>(a)],
                right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  });
  TokenLogprobs out{id, logprob(id), {}};
  for (auto likely = ids.begin(); likely != end; ++likely)
    out.top.emplace_back(*likely, logprob(*likely));
  return out;
}

}  // namespace

std::string_view name(StopReason reason) noexcept {
  constexpr std::string_view kNames[] = {"end of generation", "stop text", "length", "context full",
                                         "interrupted"};
  return kNames[static_cast<std::size_t>(reason)];
}

Answer::Answer(const Model& model, const Limits& limits, std::span<const TokenId> prompt,
               const GenerateOptions& options, const TextSink& sink)
    : options_(options),
      sink_(sink),
      model_(model),
      limits_(limits),
      expected_(known_part(options_.expected, model.vocabulary_size())),
      sampler_(sampler_options(options, model.vocabulary()), model.config().n_vocab,
               &model.tokenizer()),
      output_(model.tokenizer(), options_, sink_),
      constraint_(model, options_),
      text_(prompt.begin(), prompt.end()) {
  if (prompt.empty()) throw Error("nothing to continue: the prompt has no tokens");
  check(options_.sampler, model.token_count());
  if (known_part(options_.scored, model.token_count()).size() < options_.scored.size())
    throw Error("a token to score is not in the vocabulary: expected less than " +
                std::to_string(model.token_count()));
  keep_ = std::max<std::size_t>(options_.keep, model.vocabulary().bos == prompt.front() ? 1 : 0);
  while (text_.size() > limits_.n_ctx) {
    if (!limits_.context_shift || keep_ + 1 >= limits_.n_ctx)
      throw ContextOverflow(model.file()
                                .error("the prompt does not fit: expected at most " +
                                       counted(limits_.n_ctx, "token") + " (the context), got " +
                                       std::to_string(text_.size()))
                                .what(),
                            text_.size(), true);
    shift();
  }
  n_prompt_ = text_.size();
  // No later step allocates.
  text_.reserve(n_prompt_ + std::min(tokens_left(), limits_.n_ctx - n_prompt_));
  result_.tokens.reserve(tokens_left());
  output_.reserve(tokens_left());
}

// Drops the oldest half of the text after the first keep_ tokens. The KV cache of the rest is
// computed anew: keys depend on their positions, and the answer must be that of a text without the
// dropped part.
void Answer::shift() {
  const std::size_t dropped = std::max<std::size_t>(1, (text_.size() - keep_) / 2);
  const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(keep_);
  text_.erase(begin, begin + static_cast<std::ptrdiff_t>(dropped));
  ++result_.shifts;
}

bool Answer::interrupted() const { return options_.interrupt != nullptr && *options_.interrupt; }

// Seconds since the last call.
double Answer::seconds() {
  const auto now = Clock::now();
  const double passed = std::chrono::duration<double>(now - since_).count();
  since_ = now;
  return passed;
}

std::size_t Answer::tokens_left() const {
  const std::size_t space = limits_.n_ctx - text_.size() + 1;
  if (options_.max_tokens < 0) return space;
  const auto most = static_cast<std::size_t>(options_.max_tokens);
  return std::min(space, most - std::min(most, result_.tokens.size()));
}

void Answer::found(std::size_t n) {
  result_.cached_tokens = n;
  if (options_.progress) options_.progress(0, n_prompt_ - n);
}

void Answer::evaluated(std::size_t n) {
  result_.prompt_tokens += n;
  if (options_.progress)
    options_.progress(result_.prompt_tokens, n_prompt_ - result_.cached_tokens);
}

void Answer::count_drafts(std::size_t drafted, std::size_t accepted) {
  result_.drafted += drafted;
  result_.accepted += accepted;
}

// Ids beyond the token list have no text and are never sampled.
void Answer::take(std::span<const float> all_logits) {
  const auto logits = all_logits.first(model_.token_count());
  if (!decoding_) result_.prompt_seconds = seconds();
  decoding_ = true;
  if (interrupted()) return end(StopReason::Interrupted);
  if (!options_.scored.empty()) return score(logits);
  if (options_.max_tokens >= 0 &&
      result_.tokens.size() >= static_cast<std::size_t>(options_.max_tokens))
    return end(StopReason::Length);
  const TokenMask allowed = constraint_.mask();
  if (constraint_.stuck()) return end(StopReason::Length);  // no token fits
  if (!sampler_.can_draw(allowed)) return end_without_token(allowed);
  const TokenId token = sampler_.next(logits, text_, allowed);
  if (std::ranges::count(model_.vocabulary().end_of_generation, token) != 0 ||
      std::ranges::count(options_.end_tokens, token) != 0) {
    result_.end_token = true;
    return end(StopReason::EndOfGeneration);
  }
  constraint_.drawn(token, output_);
  push(token, logits);
  constraint_.shown(token, output_);
  if (!output_.stop().empty()) return end(StopReason::StopString);
  if (output_.refused()) return end(StopReason::Interrupted);
  if (constraint_.finished()) end(StopReason::EndOfGeneration);
  if (!ended_ && tokens_left() == 0) end(StopReason::Length);
  if (!ended_) append(token);
}

void Answer::score(std::span<const float> logits) {
  const double log_sum = log_sum_of(logits);
  for (const TokenId id : options_.scored)
    result_.scores.push_back(static_cast<float>(logits[static_cast<std::size_t>(id)] - log_sum));
  end(StopReason::Length);
}

// The last token is dropped: free text that follows may join it.
void Answer::draft_forced(std::size_t most, std::vector<TokenId>& draft) {
  constexpr std::size_t kBytes = 256;
  const std::string text = constraint_.forced(kBytes);
  if (text.size() < 2) return;
  const TextPart part{text, false};
  std::vector<TokenId> tokens = model_.tokenizer().encode_parts({&part, 1}, nullptr, true);
  if (tokens.size() > 1) tokens.pop_back();
  tokens.resize(std::min(tokens.size(), most));
  draft.insert(draft.end(), tokens.begin(), tokens.end());
}

void Answer::take_prompt(std::size_t position, std::span<const float> logits) {
  const TokenId next = text_[position + 1];
  const std::size_t n_tokens = model_.token_count();
  if (static_cast<std::size_t>(next) < n_tokens) logits = logits.first(n_tokens);
  result_.prompt_logprobs.push_back(
      token_logprobs(logits, next, options_.prompt_logprobs.value_or(0)));
}

void Answer::push(TokenId token, std::span<const float> logits) {
  result_.tokens.push_back(token);
  if (options_.on_token) options_.on_token(result_.tokens.size());
  output_.push(token);
  if (!options_.logprobs || !output_.in_answer()) return;
  result_.logprobs.push_back(token_logprobs(logits, token, *options_.logprobs));
  if (options_.on_logprobs) options_.on_logprobs(result_.logprobs.back());
}

void Answer::append(TokenId token) {
  if (text_.size() == limits_.n_ctx) {
    if (!limits_.context_shift || keep_ + 1 >= limits_.n_ctx) return end(StopReason::ContextFull);
    shift();
  }
  text_.push_back(token);
}

// Every allowed token is suppressed: end normally if an end token is among them, else cut.
void Answer::end_without_token(TokenMask allowed) {
  const bool complete = std::ranges::any_of(model_.vocabulary().end_of_generation,
                                            [&](TokenId id) { return allows(allowed, id); });
  end(complete ? StopReason::EndOfGeneration : StopReason::Length);
}

void Answer::end(StopReason reason) {
  result_.reason = reason;
  ended_ = true;
}

GenerateResult Answer::result() {
  (decoding_ ? result_.decode_seconds : result_.prompt_seconds) = seconds();
  output_.finish(result_);
  if (!result_.stop.empty()) result_.reason = StopReason::StopString;
  return std::move(result_);
}

}  // namespace cria
