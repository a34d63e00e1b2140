#include "engine/perplexity.h"

#include <algorithm>

namespace cria {

std::vector<TokenId> perplexity_tokens(const Model& model, std::string_view text) {
  const Vocabulary& vocabulary = model.vocabulary();
  std::vector<TokenId> ids = model.tokenizer().encode(text, false, false);
  if (vocabulary.add_bos && vocabulary.bos) ids.insert(ids.begin(), *vocabulary.bos);
  return ids;
}

TextWindows::TextWindows(std::size_t n_tokens, const PerplexityOptions& options)
    : n_tokens_(n_tokens), window_(options.window), stride_(options.stride) {
  if (const std::size_t least = stride_ == 0 ? 3 : 2; window_ < least)  // else nothing is scored
    throw Error("", "window too short: expected at least " + std::to_string(least) + " tokens, got " +
                        std::to_string(window_));
  if (stride_ > window_)
    throw Error("", "stride too long: expected at most the window of " + std::to_string(window_) +
                        " tokens, got " + std::to_string(stride_));
  if (n_tokens_ < window_)
    throw Error("", "the text is too short: expected at least a window of " + std::to_string(window_) +
                        " tokens, got " + std::to_string(n_tokens_));
  // With a stride the last window ends with the text and may be shorter; without, what is left is not used.
  count_ = stride_ == 0 ? n_tokens_ / window_ : 1 + (n_tokens_ - window_ + stride_ - 1) / stride_;
  if (options.max_windows != 0) count_ = std::min<std::size_t>(count_, options.max_windows);
}

TextWindow TextWindows::operator[](std::size_t i) const {
  if (stride_ == 0) return {i * window_, (i + 1) * window_, i * window_ + window_ / 2 + 1};
  const std::size_t begin = i * stride_;
  // The first token of all has nothing before it.
  const std::size_t first = i == 0 ? 1 : std::max(begin + 1, begin - stride_ + window_);
  return {begin, std::min(begin + window_, n_tokens_), first};
}

Perplexity::Perplexity(Session& session, std::span<const TokenId> text, const PerplexityOptions& options)
    : session_(session), text_(text), options_(options), windows_(text.size(), options) {}

bool Perplexity::next(const OnBatch& on_batch) {
  if (done_ == windows_.size()) return false;
  const TextWindow window = windows_[done_];
  const auto tokens = text_.subspan(window.begin, window.end - window.begin);
  tokens_.assign(tokens.begin(), tokens.end());
  if (options_.stride == 0 && session_.model().vocabulary().add_bos)
    tokens_.front() = session_.model().vocabulary().bos.value_or(tokens_.front());
  scores_.clear();
  if (!evaluate(tokens_, window.first_scored - window.begin, on_batch)) return false;
  for (const double log_p : scores_) surprise_.add(-log_p);
  ++done_;
  return true;
}

// The last token predicts nothing that is scored, so it is not evaluated.
bool Perplexity::evaluate(std::span<const TokenId> tokens, std::size_t first_scored,
                          const OnBatch& on_batch) {
  const auto inputs = tokens.first(tokens.size() - 1);
  const std::size_t n_batch = session_.options().n_batch;
  session_.truncate(0);
  for (std::size_t done = 0, n = 0; done < inputs.size(); done += n) {
    n = std::min(n_batch, inputs.size() - done);
    const std::size_t wanted = std::clamp<std::size_t>(first_scored - 1, done, done + n) - done;
    session_.forward(inputs.subspan(done, n), wanted);
    for (std::size_t begin = wanted, end = 0; begin < n; begin = end) {
      end = std::min(n, begin + session_.logit_rows());
      score(begin, end, tokens.subspan(done + begin + 1, end - begin));
    }
    if (on_batch && !on_batch(done + n)) return false;
  }
  return true;
}

void Perplexity::score(std::size_t begin, std::size_t end, std::span<const TokenId> targets) {
  const std::span<const float> logits = session_.logits(begin, end);
  const std::size_t n_vocab = logits.size() / targets.size();
  const std::size_t first = scores_.size();
  scores_.resize(first + targets.size());
  session_.parallel(targets.size(), [&](std::size_t i) {
    const float* row = logits.data() + i * n_vocab;
    const double log_sum = session_.options().kernels->log_sum_exp(row, n_vocab);
    scores_[first + i] = row[static_cast<std::size_t>(targets[i])] - log_sum;
  });
}

PerplexityResult Perplexity::result() const {
  const double ppl = std::exp(surprise_.mean);
  return {ppl, ppl * surprise_.error(), surprise_.n, done_};
}

}  // namespace cria
