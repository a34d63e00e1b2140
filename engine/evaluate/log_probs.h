// A model's predictions for the windows of a text on disk, in 16 bits each: the reference that
// other quantizations are compared with.
//
//   magic "CRIALOGP" · u32 version · u32 window · u32 stride · u32 vocabulary size · u64
//   fingerprint of the vocabulary · u64 fingerprint of the model · u64 n · u64 number of windows ·
//   n token ids (i32) · u64 checksum of all before it; then for each window: a row for each
//   scored token, u64 checksum of the rows. Row: f32 step · u16 code per token of the vocabulary;
//   log p =
//   -(step·code)². (little-endian)
//
// TextWindows decides which tokens a window scores. Steps of the square root are finest for likely
// tokens: within 4.2e-5·sqrt(log p · log p of the least likely token) of log p.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/evaluate/divergence.h"
#include "engine/evaluate/scorer.h"
#include "model/file/binary_file.h"

namespace cria {

/// Bytes per row.
std::size_t log_prob_row_bytes(std::size_t n_vocab);
/// Writes a row of logits, given their log_sum_exp, and reads one as floats.
void encode_log_probs(std::span<const float> logits, double log_sum, std::byte* row);
void decode_log_probs(const std::byte* row, std::span<float> log_probs);

class LogProbsWriter {
 public:
  /// Begins the file for the windows of this text. Throws Error.
  LogProbsWriter(const std::string& path, const Model& model, std::span<const TokenId> text,
                 const PerplexityOptions& options);
  void add_row(std::span<const std::byte> row);  ///< the next row of a window
  void end_window();
  void finish();  ///< call after the last window: creates the file

 private:
  BinaryWriter file_;
};

/// Checks sizes before it allocates, and each window's checksum before the next window.
class LogProbsReader : public BaseLogits {
 public:
  /// Throws Error for other files, damaged files, and files of another vocabulary than the model's.
  LogProbsReader(const std::string& path, const Model& model);

  [[nodiscard]] const std::vector<TokenId>& text() const { return text_; }
  /// The file's window, stride and number of windows.
  [[nodiscard]] const PerplexityOptions& options() const { return options_; }

  [[nodiscard]] std::uint64_t fingerprint() const override;
  /// The fingerprint of this model's file of this text.
  static std::uint64_t fingerprint(const Model& model, std::span<const TokenId> text);
  [[nodiscard]] std::size_t n_batch() const override;
  [[nodiscard]] std::size_t logit_rows() const override { return rows_; }
  void begin_window(std::size_t index) override;
  void forward(std::span<const TokenId>, std::size_t) override {}
  std::span<const float> logits(std::size_t begin, std::size_t end) override;

 private:
  BinaryReader file_;
  std::uint64_t model_ = 0;
  std::size_t n_vocab_ = 0, rows_ = 0;
  std::vector<TokenId> text_;
  PerplexityOptions options_;
  std::unique_ptr<TextWindows> windows_;
  std::size_t window_ = 0, left_ = 0;  // current window and its remaining rows
  std::size_t next_ = 0;               // the next window in the file, if any
  std::vector<std::byte> encoded_;
  std::vector<float> decoded_;
};

}  // namespace cria
