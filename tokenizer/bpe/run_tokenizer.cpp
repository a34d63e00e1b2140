#include "tokenizer/bpe/run_tokenizer.h"

#include <algorithm>

#include "model/error.h"
#include "model/file/utf8.h"

namespace cria {

namespace {

std::size_t white_space_at_start(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size()) {
    const Utf8Char c = first_char(text.substr(n));
    if (!c.valid || !is_white_space(c.code_point)) break;
    n += c.bytes;
  }
  return n;
}

std::string_view without_white_space_at_end(std::string_view text) {
  std::size_t keep = 0;
  each_char(text, [&](const Utf8Char& c, std::size_t at) {
    if (!c.valid || !is_white_space(c.code_point)) keep = at + c.bytes;
  });
  return text.substr(0, keep);
}

}  // namespace

RunTokenizer::RunTokenizer(const Vocabulary& vocabulary) : vocabulary_(vocabulary), specials_({}) {
  check_vocabulary(vocabulary);
  roles_ = token_roles(vocabulary);
}

void RunTokenizer::require_id(TokenId id) const {
  if (id >= 0 && static_cast<std::size_t>(id) < roles_.size()) return;
  throw Error("token id outside the vocabulary: expected 0 to " +
              std::to_string(roles_.size() - 1) + ", got " + std::to_string(id));
}

std::optional<TokenId> RunTokenizer::unknown_token() const {
  if (vocabulary_.unk) return vocabulary_.unk;
  const auto found =
      std::find(vocabulary_.types.begin(), vocabulary_.types.end(), TokenType::Unknown);
  if (found == vocabulary_.types.end()) return std::nullopt;
  return static_cast<TokenId>(found - vocabulary_.types.begin());
}

/// One call of encode_parts. The open run is a view of the current part while possible; it is
/// copied only if it spans parts or starts with a dummy space.
class RunTokenizer::Encoder {
 public:
  Encoder(const RunTokenizer& tokenizer, std::vector<std::size_t>* ends, bool continues_text)
      : tokenizer_(tokenizer), sink_(ends), continues_text_(continues_text) {}

  void add(const TextPart& part) {
    const std::string_view text = part.text;
    std::size_t from = strip_next_ ? white_space_at_start(text) : 0;
    if (from < text.size()) strip_next_ = false;
    for (std::size_t at = from;;) {
      at = tokenizer_.specials_.find_candidate(text, at, part.trusted);
      if (at >= text.size()) break;
      const auto special = tokenizer_.specials_.match(text.substr(at), part.trusted);
      if (!special) {
        ++at;
        continue;
      }
      std::string_view before = text.substr(from, at - from);
      if (special->strip_left) {
        before = without_white_space_at_end(before);
        if (before.empty()) run_.resize(without_white_space_at_end(run_).size());
      }
      close_run(before, offset_ + from);
      at += special->bytes;
      if (special->strip_right) {
        at += white_space_at_start(text.substr(at));
        strip_next_ = at == text.size();
      }
      sink_.begin_run(offset_);
      sink_.push(special->id, at);
      from = at;
    }
    open_run(text.substr(from), offset_ + from);
    offset_ += text.size();
  }

  std::vector<TokenId> finish() {
    close_run({}, offset_);
    return std::move(sink_.ids());
  }

 private:
  /// Adds to the run, which the next part may continue.
  void open_run(std::string_view text, std::size_t offset) {
    if (text.empty()) return;
    if (run_.empty()) begin(offset);
    run_.append(text);
  }

  void begin(std::size_t offset) {
    run_offset_ = offset;
    if (!wants_dummy_space()) return;
    run_.push_back(' ');
    --run_offset_;  // may be "-1": the dummy space is not in the text
  }

  [[nodiscard]] bool wants_dummy_space() {
    const auto& ids = sink_.ids();
    if (ids.empty()) return !continues_text_ && tokenizer_.dummy_space_after(std::nullopt);
    return tokenizer_.dummy_space_after(ids.back());
  }

  /// Adds to the run and encodes it.
  void close_run(std::string_view text, std::size_t offset) {
    if (run_.empty() && !wants_dummy_space()) {
      sink_.begin_run(offset);
      if (!text.empty()) tokenizer_.encode_run(text, sink_);
      return;
    }
    open_run(text, offset);
    sink_.begin_run(run_offset_);
    if (!run_.empty()) tokenizer_.encode_run(run_, sink_);
    run_.clear();
  }

  const RunTokenizer& tokenizer_;
  TokenSink sink_;
  std::string run_;             ///< text since the last special token, without the current part's
  std::size_t run_offset_ = 0;  ///< offset of run_ in the whole text
  std::size_t offset_ = 0;      ///< offset of the current part in the whole text
  bool continues_text_;
  bool strip_next_ =
      false;  ///< white space at the start of the next part belongs to the last special token
};

std::vector<TokenId> RunTokenizer::encode_parts(std::span<const TextPart> parts,
                                                std::vector<std::size_t>* ends,
                                                bool continues_text) const {
  if (ends != nullptr) ends->clear();
  Encoder encoder(*this, ends, continues_text);
  for (const TextPart& part : parts) encoder.add(part);
  return encoder.finish();
}

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

void RunTokenizer::note_special(std::string_view text) {
  bool crosses = !text.empty() && is_letter(text.back());
  for (std::size_t i = 1; i < text.size(); ++i)
    crosses = crosses || (text[i] == ' ' && is_letter(text[i - 1]));
  specials_cross_splits_ = specials_cross_splits_ || crosses;
}

// Between a letter and a space all pre-tokenizers cut, whatever is before and behind.
std::size_t RunTokenizer::last_safe_split(std::string_view text, std::size_t from) const {
  if (specials_cross_splits_ || text.empty()) return 0;
  for (std::size_t at = text.size() - 1; at > 0 && at >= from; --at)
    if (text[at] == ' ' && is_letter(text[at - 1]) && splits_after(text[at - 1])) return at;
  return 0;
}

}  // namespace cria
