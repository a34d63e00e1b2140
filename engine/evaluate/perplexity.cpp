#include "engine/evaluate/perplexity.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "model/plural.h"

namespace cria {
namespace {

// The token that begins a window, in place of `own`. Adjacent windows do not score it.
TokenId first_token(const Model& model, const PerplexityOptions& options, TokenId own) {
  const Vocabulary& vocabulary = model.vocabulary();
  return options.stride == 0 && vocabulary.add_bos ? vocabulary.bos.value_or(own) : own;
}

PerplexityResult result_of(const MeanVariance& surprise, std::size_t windows) {
  const double ppl = std::exp(surprise.mean);
  return {ppl, ppl * surprise.error(), surprise.n, windows, {}};
}

// The data of a state: n divergences (f32) and n differences of probabilities (f32) follow.
struct StateData {
  MeanVariance surprise;
  Divergence::Sums sums;
  std::uint64_t n_values;
};
static_assert(sizeof(StateData) == 8 + 8 * sizeof(MeanVariance) && sizeof(MeanVariance) == 24);

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

std::vector<TokenId> WindowRun::next_tokens() const {
  const TextWindow window = windows_[done_];
  const auto tokens = text_.subspan(window.begin, window.end - window.begin);
  std::vector<TokenId> out(tokens.begin(), tokens.end());
  out.front() = first_token(session_.model(), options_, out.front());
  return out;
}

Hash WindowRun::hash() const {
  Hash hash = session_hash(session_);
  hash.add_number((std::uint64_t{options_.stride} << 32) | options_.window);
  hash.add(text_.data(), text_.size_bytes());
  return hash;
}

WindowRun::StateHead WindowRun::head(const StateKind& kind, std::uint64_t identity) const {
  StateHead head{{}, kind.version, static_cast<std::uint32_t>(done_), identity};
  std::ranges::copy(kind.magic, head.magic);
  return head;
}

std::uint32_t WindowRun::read_head(BinaryReader& in, const StateKind& kind,
                                   std::uint64_t identity) const {
  const std::string other = "not a state of " + std::string(kind.name);
  in.expect(in.size() >= sizeof(StateHead) + kind.data_bytes, other + ": too short");
  const auto head = in.read_number<StateHead>();
  in.expect(std::string_view(head.magic, sizeof head.magic) == kind.magic, other, "at byte 0");
  in.expect_equal("version", kind.version, head.version, "at byte 8");
  in.expect(head.identity == identity, std::string(kind.different), "at byte 16");
  in.expect(head.n_done <= windows_.size(),
            "the state has more windows than requested: expected up to " +
                std::to_string(windows_.size()) + ", got " + std::to_string(head.n_done),
            "at byte 12");
  return head.n_done;
}

bool Perplexity::next(const OnBatch& on_batch) {
  if (done_ == windows_.size()) return false;
  const TextWindow window = windows_[done_];
  tokens_ = next_tokens();
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

// The last token is not evaluated, as it predicts no scored token.
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

std::uint64_t Perplexity::identity() const {
  Hash all = hash();
  all.add_number(base_ != nullptr ? base_->fingerprint() : std::uint64_t{0});
  return all.value();
}

const WindowRun::StateKind Perplexity::kState = {
    "CRIAPPLX", "a perplexity measurement", 2,
    "state of a different measurement: the model, text, windows or reference differ",
    sizeof(StateData)};

void Perplexity::save(const std::string& path) const {
  BinaryWriter out(path);
  out.write_number(head(kState, identity()));
  out.write_number(StateData{surprise_, divergence_.sums, divergence_.klds.size()});
  out.write(divergence_.klds.data(), divergence_.klds.size() * sizeof(float));
  out.write(divergence_.delta_ps.data(), divergence_.delta_ps.size() * sizeof(float));
  out.write_checksum();
  out.finish();
}

void Perplexity::load(const std::string& path) {
  BinaryReader in(path);
  const std::uint32_t n_done = read_head(in, kState, identity());
  const auto data = in.read_number<StateData>();
  in.expect_equal("number of compared tokens", base_ != nullptr ? data.surprise.n : 0,
                  data.n_values);
  in.expect(data.n_values <= in.size() / (2 * sizeof(float)),  // otherwise their size might wrap
            "too short for " + counted(data.n_values, "compared token") + ": got " +
                counted(in.size(), "byte"));
  in.expect_equal("wrong size in bytes",
                  sizeof(StateHead) + sizeof(StateData) + data.n_values * 2 * sizeof(float) +
                      sizeof(std::uint64_t),
                  in.size());
  Divergence divergence{data.sums, std::vector<float>(data.n_values),
                        std::vector<float>(data.n_values)};
  in.read(divergence.klds.data(), divergence.klds.size() * sizeof(float));
  in.read(divergence.delta_ps.data(), divergence.delta_ps.size() * sizeof(float));
  in.check_checksum();
  done_ = n_done;
  surprise_ = data.surprise;
  divergence_ = std::move(divergence);
}

}  // namespace cria
