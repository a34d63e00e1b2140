#include "engine/evaluate/log_probs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/model_parts.h"
#include "model/limits.h"

namespace cria {
namespace {

constexpr char kMagic[8] = {'C', 'R', 'I', 'A', 'L', 'O', 'G', 'P'};
constexpr std::uint32_t kVersion = 1;
constexpr float kCodes = 65535;
constexpr std::size_t kRowBuffer = std::size_t{8} << 20;  // bytes of decoded rows in memory

struct Header {
  char magic[8];
  std::uint32_t version, window, stride, n_vocab;
  std::uint64_t vocabulary, model, n_tokens, n_windows;
};
static_assert(sizeof(Header) == 56);

std::size_t scored(const TextWindow& window) { return window.end - window.first_scored; }

// Rows of all windows. With a stride, each token but the first is scored once; without overlap,
// each but the first of a window.
std::uint64_t row_count(const TextWindows& windows, const PerplexityOptions& options) {
  if (options.stride == 0) return windows.size() * scored(windows[0]);
  const std::uint64_t not_scored = options.stride == options.window ? windows.size() : 1;
  return windows[windows.size() - 1].end - not_scored;
}

// Bytes of the file; nullopt if that is impossible.
std::optional<std::uint64_t> file_bytes(const TextWindows& windows,
                                        const PerplexityOptions& options, std::uint64_t n_tokens,
                                        std::size_t n_vocab) {
  const std::uint64_t head = sizeof(Header) + n_tokens * sizeof(TokenId) + sizeof(std::uint64_t);
  const auto rows = limits::multiply(row_count(windows, options), log_prob_row_bytes(n_vocab));
  return rows ? limits::add(*rows, head + windows.size() * sizeof(std::uint64_t)) : rows;
}

// Hashes the windows' tokens: the text may be longer.
std::uint64_t file_bytes(const Model& model, std::size_t n_tokens,
                         const PerplexityOptions& options) {
  const TextWindows windows(n_tokens, options);
  return file_bytes(windows, options, windows[windows.size() - 1].end, model.config().n_vocab)
      .value_or(0);
}

std::uint64_t fingerprint_of(std::uint64_t model, std::span<const TokenId> text) {
  Hash hash;
  hash.add_number(model);
  hash.add(text.data(), text.size_bytes());
  return hash.value();
}

}  // namespace

std::size_t log_prob_row_bytes(std::size_t n_vocab) {
  return sizeof(float) + n_vocab * sizeof(std::uint16_t);
}

void encode_log_probs(std::span<const float> logits, double log_sum, std::byte* row) {
  const auto surprise = [log_sum](float x) {
    return std::max(0.0F, static_cast<float>(log_sum - x));
  };
  const float step = std::sqrt(surprise(*std::ranges::min_element(logits))) / kCodes;
  std::memcpy(row, &step, sizeof step);
  row += sizeof step;
  const float inverse = step > 0 ? 1 / step : 0;
  for (const float x : logits) {
    const auto code =
        static_cast<std::uint16_t>(std::min(kCodes, std::sqrt(surprise(x)) * inverse + 0.5F));
    std::memcpy(row, &code, sizeof code);
    row += sizeof code;
  }
}

void decode_log_probs(const std::byte* row, std::span<float> log_probs) {
  float step = 0;
  std::memcpy(&step, row, sizeof step);
  row += sizeof step;
  for (float& x : log_probs) {
    std::uint16_t code = 0;
    std::memcpy(&code, row, sizeof code);
    row += sizeof code;
    const float root = step * static_cast<float>(code);
    x = -(root * root);
  }
}

LogProbsWriter::LogProbsWriter(const std::string& path, const Model& model,
                               std::span<const TokenId> text, const PerplexityOptions& options)
    : file_(path, file_bytes(model, text.size(), options)) {
  const TextWindows windows(text.size(), options);
  const std::size_t used = windows[windows.size() - 1].end;
  Header header{{},
                kVersion,
                options.window,
                options.stride,
                model.config().n_vocab,
                vocabulary_fingerprint(model.vocabulary()),
                weights_fingerprint(model),
                used,
                windows.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  file_.write_number(header);
  file_.write(text.data(), used * sizeof(TokenId));
  file_.write_checksum();
}

void LogProbsWriter::add_row(std::span<const std::byte> row) {
  file_.write(row.data(), row.size());
}
void LogProbsWriter::end_window() { file_.write_checksum(); }
void LogProbsWriter::finish() { file_.finish(); }

LogProbsReader::LogProbsReader(const std::string& path, const Model& model) : file_(path) {
  file_.expect(file_.size() >= sizeof(Header), "not a cria log-probability file: too short");
  const auto header = file_.read_number<Header>();
  file_.expect(std::memcmp(header.magic, kMagic, sizeof kMagic) == 0,
               "not a cria log-probability file", "at byte 0");
  file_.expect_equal("version", kVersion, header.version, "at byte 8");
  file_.expect_equal("different vocabulary size", model.config().n_vocab, header.n_vocab,
                     "at byte 20");
  file_.expect(header.vocabulary == vocabulary_fingerprint(model.vocabulary()),
               "made with a different vocabulary than that of " + model.file().path(),
               "at byte 24");
  file_.expect(header.n_tokens <= file_.size() / sizeof(TokenId),
               "more tokens than the file has bytes for", "at byte 40");
  file_.expect(header.window <= limits::kContext && header.n_windows > 0, "no windows",
               "at byte 12");
  options_ = {header.window, header.stride, header.n_windows};
  try {
    windows_ = std::make_unique<TextWindows>(header.n_tokens, options_);
  } catch (const Error& error) {
    throw Error(path, error.what(), "at byte 12");
  }
  file_.expect_equal("number of windows", windows_->size(), header.n_windows, "at byte 48");
  n_vocab_ = header.n_vocab;
  const auto total = file_bytes(*windows_, options_, header.n_tokens, n_vocab_);
  file_.expect(total.has_value(), "impossible sizes");
  file_.expect_equal("wrong size in bytes", *total, file_.size());
  text_.resize(header.n_tokens);
  file_.read(text_.data(), text_.size() * sizeof(TokenId));
  file_.check_checksum();
  for (const TokenId token : text_)
    file_.expect(token >= 0 && static_cast<std::size_t>(token) < n_vocab_, "bad token id");
  model_ = header.model;
  rows_ = std::max<std::size_t>(1, kRowBuffer / (n_vocab_ * sizeof(float)));
  encoded_.resize(log_prob_row_bytes(n_vocab_));
}

std::uint64_t LogProbsReader::fingerprint() const { return fingerprint_of(model_, text_); }
std::uint64_t LogProbsReader::fingerprint(const Model& model, std::span<const TokenId> text) {
  return fingerprint_of(weights_fingerprint(model), text);
}

std::size_t LogProbsReader::n_batch() const { return std::numeric_limits<std::size_t>::max(); }

void LogProbsReader::begin_window(std::size_t index) {
  if (index != next_) {  // after a restart or an unfinished window
    std::uint64_t at = sizeof(Header) + text_.size() * sizeof(TokenId) + sizeof(std::uint64_t);
    for (std::size_t i = 0; i < index; ++i)
      at += scored((*windows_)[i]) * log_prob_row_bytes(n_vocab_) + sizeof(std::uint64_t);
    file_.seek(at);
  }
  next_ = std::numeric_limits<std::size_t>::max();
  window_ = index;
  left_ = scored((*windows_)[index]);
}

std::span<const float> LogProbsReader::logits(std::size_t begin, std::size_t end) {
  decoded_.resize((end - begin) * n_vocab_);
  for (std::size_t i = 0; i < end - begin; ++i) {
    file_.read(encoded_.data(), encoded_.size());
    float step = 0;
    std::memcpy(&step, encoded_.data(), sizeof step);
    file_.expect(std::isfinite(step) && step >= 0 && step < 1e10F, "damaged: bad step of a row");
    decode_log_probs(encoded_.data(), std::span(decoded_).subspan(i * n_vocab_, n_vocab_));
  }
  left_ -= end - begin;
  if (left_ == 0) {
    file_.check_checksum();
    next_ = window_ + 1;
  }
  return decoded_;
}

}  // namespace cria
