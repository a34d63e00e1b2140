#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"

#include <algorithm>

namespace cria {
namespace {

// Of a window that begins with this token. Where windows lie side by side, their first tokens are
// not scored.
TokenId first_token(const Model& model, const PerplexityOptions& options, TokenId own) {
  const Vocabulary& vocabulary = model.vocabulary();
  return options.stride == 0 && vocabulary.add_bos ? vocabulary.bos.value_or(own) : own;
}

PerplexityResult result_of(const MeanVariance& surprise, std::size_t windows) {
  const double ppl = std::exp(surprise.mean);
  return {ppl, ppl * surprise.error(), surprise.n, windows, {}};
}

}  // namespace

std::vector<TokenId> perplexity_tokens(const Model& model, std::string_view text) {
  const Vocabulary& vocabulary = model.vocabulary();
  std::vector<TokenId> ids = model.tokenizer().encode(text, false, false);
  if (vocabulary.add_bos && vocabulary.bos) ids.insert(ids.begin(), *vocabulary.bos);
  return ids;
}

ScoredWindows::ScoredWindows(const Model& model, std::vector<TokenId> text,
                             const PerplexityOptions& options)
    : text_(std::move(text)), windows_(text_.size(), options) {
  std::size_t scored = 0;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const TextWindow window = windows_[i];
    scored += window.end - window.first_scored;
    text_[window.begin] = first_token(model, options, text_[window.begin]);
  }
  scores_.resize(scored);
}

void ScoredWindows::add_to(Scorer& scorer) {
  TokenScore* to = scores_.data();
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const TextWindow window = windows_[i];
    scorer.add(std::span(text_).subspan(window.begin, window.end - window.begin),
               window.first_scored - window.begin, to);
    to += window.end - window.first_scored;
  }
}

PerplexityResult ScoredWindows::result() const {
  MeanVariance surprise;
  for (const TokenScore& score : scores_) surprise.add(-score.log_p);
  return result_of(surprise, windows_.size());
}

Perplexity::Perplexity(Session& session, std::span<const TokenId> text,
                       const PerplexityOptions& options)
    : session_(session), text_(text), options_(options), windows_(text.size(), options) {}

bool Perplexity::next(const OnBatch& on_batch) {
  if (done_ == windows_.size()) return false;
  const TextWindow window = windows_[done_];
  const auto tokens = text_.subspan(window.begin, window.end - window.begin);
  tokens_.assign(tokens.begin(), tokens.end());
  tokens_.front() = first_token(session_.model(), options_, tokens_.front());
  scores_.clear();
  if (!evaluate(tokens_, window.first_scored - window.begin, on_batch)) return false;
  for (const TokenComparison& token : scores_) {
    surprise_.add(-token.log_q);
    if (base_ != nullptr) divergence_.add(token);
  }
  if (writer_ != nullptr) writer_->end_window();
  ++done_;
  return true;
}

// The last token predicts nothing that is scored, so it is not evaluated.
bool Perplexity::evaluate(std::span<const TokenId> tokens, std::size_t first_scored,
                          const OnBatch& on_batch) {
  const auto inputs = tokens.first(tokens.size() - 1);
  std::size_t n_batch = session_.options().n_batch;
  std::size_t n_rows = session_.logit_rows();
  session_.truncate(0);
  if (base_ != nullptr) {
    n_batch = std::min(n_batch, base_->n_batch());
    n_rows = std::min(n_rows, base_->logit_rows());
    base_->begin_window(done_);
  }
  for (std::size_t done = 0, n = 0; done < inputs.size(); done += n) {
    n = std::min(n_batch, inputs.size() - done);
    const auto batch = inputs.subspan(done, n);
    const std::size_t wanted = std::clamp(first_scored - 1, done, done + n) - done;
    session_.forward(batch, wanted);
    if (base_ != nullptr) base_->forward(batch, wanted);
    for (std::size_t begin = wanted, end = 0; begin < n; begin = end) {
      end = std::min(n, begin + n_rows);
      score(begin, end, tokens.subspan(done + begin + 1, end - begin));
    }
    if (on_batch && !on_batch(done + n)) return false;
  }
  return true;
}

void Perplexity::score(std::size_t begin, std::size_t end, std::span<const TokenId> targets) {
  const KernelSet& kernels = *session_.options().kernels;
  const std::span<const float> logits = session_.logits(begin, end);
  const std::span<const float> base =
      base_ != nullptr ? base_->logits(begin, end) : std::span<const float>();
  const std::size_t n_vocab = logits.size() / targets.size();
  const std::size_t row_bytes = log_prob_row_bytes(n_vocab);
  if (writer_ != nullptr) encoded_.resize(targets.size() * row_bytes);
  const std::size_t first = scores_.size();
  scores_.resize(first + targets.size());
  session_.parallel(targets.size(), [&](std::size_t i) {
    const auto row = logits.subspan(i * n_vocab, n_vocab);
    const auto target = static_cast<std::size_t>(targets[i]);
    const double log_sum = kernels.log_sum_exp(row.data(), n_vocab);
    if (base.empty()) {
      scores_[first + i].log_q = row[target] - log_sum;
    } else {
      scores_[first + i] =
          compare_token(kernels, row, log_sum, base.subspan(i * n_vocab, n_vocab), target);
    }
    if (writer_ != nullptr) encode_log_probs(row, log_sum, encoded_.data() + i * row_bytes);
  });
  if (writer_ == nullptr) return;
  for (std::size_t i = 0; i < targets.size(); ++i)
    writer_->add_row(std::span(encoded_).subspan(i * row_bytes, row_bytes));
}

PerplexityResult Perplexity::result_so_far() const { return result_of(surprise_, done_); }

PerplexityResult Perplexity::result() const {
  PerplexityResult result = result_so_far();
  if (base_ != nullptr) result.divergence = divergence_.result();
  return result;
}

}  // namespace cria
