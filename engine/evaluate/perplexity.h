// Measures how well a model predicts a text: perplexity over windows.
//
//   const std::vector<TokenId> text = perplexity_tokens(*model, bytes);
//   Perplexity perplexity(session, text, {});
//   while (perplexity.next()) continue;
//   std::cout << perplexity.result().ppl;
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/evaluate/divergence.h"
#include "engine/evaluate/log_probs.h"
#include "engine/evaluate/scorer.h"
#include "engine/session.h"

namespace cria {

/// The text's token ids, after BOS if the model has one. Special-token text stays plain text.
std::vector<TokenId> perplexity_tokens(const Model& model, std::string_view text);

struct PerplexityResult {
  double ppl = 0;            ///< exp of the mean of -log p(token)
  double ppl_stderr = 0;     ///< standard error of the mean, times ppl
  std::uint64_t tokens = 0;  ///< scored
  std::uint64_t windows = 0;
  std::optional<DivergenceResult> divergence;  ///< from the reference, if any
};

/// Perplexity without divergence: scores several windows at a time.
class ScoredWindows {
 public:
  /// Throws as TextWindows.
  ScoredWindows(const Model& model, std::vector<TokenId> text, const PerplexityOptions& options);
  /// Call before the scorer's first pass. This object outlives the scorer.
  void add_to(Scorer& scorer);
  /// Call after the scorer's last pass. The result has the same bits as Perplexity.
  [[nodiscard]] PerplexityResult result() const;

 private:
  std::vector<TokenId> text_;
  TextWindows windows_;
  std::vector<TokenScore> scores_;
};

/// A text that a session evaluates window by window. The state of a run on disk (little-endian):
///
///   StateHead · data of the run · u64 checksum of all before it
class WindowRun {
 public:
  /// Called after each batch with the tokens evaluated in this window; false stops.
  using OnBatch = std::function<bool(std::size_t evaluated)>;

  [[nodiscard]] std::size_t windows() const { return windows_.size(); }
  [[nodiscard]] std::size_t done() const { return done_; }

 protected:
  struct StateHead {
    char magic[8];
    std::uint32_t version, n_done;
    std::uint64_t identity;
  };
  /// Describes the state of a kind of run.
  struct StateKind {
    std::string_view magic, name;  ///< name: "a perplexity measurement"
    std::uint32_t version;
    std::string_view different;  ///< the error for the state of another run
    std::uint64_t data_bytes;    ///< at least
  };
  /// Session and text outlive this. Throws as TextWindows.
  WindowRun(Session& session, std::span<const TokenId> text, const PerplexityOptions& options)
      : session_(session), text_(text), options_(options), windows_(text.size(), options) {}
  ~WindowRun() = default;

  [[nodiscard]] std::vector<TokenId> next_tokens() const;  ///< of the window to evaluate
  [[nodiscard]] Hash hash() const;                         ///< of the model, the text and windows
  [[nodiscard]] StateHead head(const StateKind& kind, std::uint64_t identity) const;
  /// Reads the head of a state and checks it; returns its number of windows. Throws Error.
  std::uint32_t read_head(BinaryReader& in, const StateKind& kind, std::uint64_t identity) const;

  Session& session_;
  std::span<const TokenId> text_;
  PerplexityOptions options_;
  TextWindows windows_;
  std::size_t done_ = 0;
};

/// One measurement. Its bits do not depend on threads or batches: tokens are scored in double and
/// summed in the order of the text.
class Perplexity : public WindowRun {
 public:
  /// Session and text outlive this. The session's context must hold a window without its last
  /// token. Throws as TextWindows.
  Perplexity(Session& session, std::span<const TokenId> text, const PerplexityOptions& options)
      : WindowRun(session, text, options) {}
  /// Call before the first window. Compares each prediction with the reference's, or records each
  /// one. Both arguments outlive this.
  void compare_with(BaseLogits& base) { base_ = &base; }
  void write_to(LogProbsWriter& writer) { writer_ = &writer; }

  /// Evaluates the next window. False if none was left, or if on_batch stopped it, which discards
  /// the window. Throws Error as Session::eval.
  bool next(const OnBatch& on_batch = {});

  [[nodiscard]] PerplexityResult result() const;
  /// The same without the divergence, whose quantiles need sorting: cheap after each window.
  [[nodiscard]] PerplexityResult result_so_far() const;

  /// Saves the state; load() resumes it with the same bits. load() throws Error for the state of
  /// another model, text, reference or other windows.
  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  bool evaluate(std::span<const TokenId> tokens, std::size_t first_scored, const OnBatch& on_batch);
  void score(std::size_t begin, std::size_t end, std::span<const TokenId> targets);
  [[nodiscard]] std::uint64_t identity() const;

  static const StateKind kState;
  BaseLogits* base_ = nullptr;
  LogProbsWriter* writer_ = nullptr;
  std::vector<TokenId> tokens_;          // tokens of this window
  std::vector<TokenComparison> scores_;  // scores of this window; without a reference only log_q
  std::vector<std::byte> encoded_;       // rows for the writer
  MeanVariance surprise_;                // -log p
  Divergence divergence_;
};

}  // namespace cria
