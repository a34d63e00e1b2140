// How well a model predicts a text: perplexity over windows of it.
//
//   const std::vector<TokenId> text = perplexity_tokens(*model, bytes);
//   Perplexity perplexity(session, text, {});
//   while (perplexity.next()) continue;
//   std::cout << perplexity.result().ppl;
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/moments.h"
#include "engine/session.h"

namespace cria {

struct PerplexityOptions {
  std::uint32_t window = 512;  ///< tokens of a window
  /// 0: windows side by side, each begins with BOS where the model wants it, the tokens after its middle are
  /// scored: how llama.cpp and published tables of quantizations do it. Else every window begins so many
  /// tokens after the one before it, holds the text as it is, and what no window before it held is scored:
  /// how papers and Hugging Face do it.
  std::uint32_t stride = 0;
  std::uint64_t max_windows = 0;  ///< 0: all
};

/// The text's token ids, after BOS where the model wants it; names of control tokens in it are plain text.
std::vector<TokenId> perplexity_tokens(const Model& model, std::string_view text);

/// Tokens evaluated together, from a new beginning.
struct TextWindow {
  std::size_t begin, end;    ///< in the text
  std::size_t first_scored;  ///< tokens [first_scored, end) are scored, each by the tokens before it
};

/// The windows of a text of n tokens.
class TextWindows {
 public:
  /// Throws Error for a text shorter than a window, and for options that make no sense.
  TextWindows(std::size_t n_tokens, const PerplexityOptions& options);
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] TextWindow operator[](std::size_t i) const;

 private:
  std::size_t n_tokens_, window_, stride_, count_;
};

struct PerplexityResult {
  double ppl = 0;            ///< exp of the mean of -log p(token)
  double ppl_stderr = 0;     ///< of the mean, times ppl
  std::uint64_t tokens = 0;  ///< scored
  std::uint64_t windows = 0;
};

/// One measurement. The figures do not depend on threads or batches: tokens are scored in double and summed
/// up in the order of the text.
class Perplexity {
 public:
  /// Session and text outlive it; the session's context holds at least a window less one token. Throws as
  /// TextWindows.
  Perplexity(Session& session, std::span<const TokenId> text, const PerplexityOptions& options);

  /// Called after each batch with the tokens evaluated in this window so far; false stops.
  using OnBatch = std::function<bool(std::size_t evaluated)>;
  /// Evaluates the next window. False if none was left or on_batch stopped it, which forgets that window.
  /// Throws Error as Session::eval.
  bool next(const OnBatch& on_batch = {});

  [[nodiscard]] std::size_t windows() const { return windows_.size(); }
  [[nodiscard]] std::size_t done() const { return done_; }
  [[nodiscard]] PerplexityResult result() const;

 private:
  bool evaluate(std::span<const TokenId> tokens, std::size_t first_scored, const OnBatch& on_batch);
  void score(std::size_t begin, std::size_t end, std::span<const TokenId> targets);

  Session& session_;
  std::span<const TokenId> text_;
  PerplexityOptions options_;
  TextWindows windows_;
  std::size_t done_ = 0;
  std::vector<TokenId> tokens_;  // of the window
  std::vector<double> scores_;   // of the window's tokens: log p
  Moments surprise_;             // of -log p
};

}  // namespace cria
