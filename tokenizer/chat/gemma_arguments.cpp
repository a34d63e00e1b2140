#include "tokenizer/chat/gemma_arguments.h"

#include <algorithm>

#include "tokenizer/chat/bare_values.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

constexpr std::string_view kQuote = "<|\"|>";
constexpr int kDeepest = 100;

/// Reads from the front of the text. What it returns is worth nothing where failed() holds in the
/// end.
class GemmaReader {
 public:
  explicit GemmaReader(std::string_view text) : rest_(text) {}

  std::string object() {
    std::string json = "{";
    list('}', [&] {
      json += (json.size() > 1 ? ", " : "") +
              json_string(rest_.starts_with(kQuote) ? quoted() : bare(":"));
      expect(':');
      json += ": " + value();
    });
    return json + "}";
  }
  [[nodiscard]] bool failed() const { return failed_ || !rest_.empty(); }

 private:
  std::string value() {
    skip_spaces();
    if (rest_.starts_with(kQuote)) return json_string(quoted());
    if (rest_.starts_with('{')) return object();
    if (rest_.starts_with('[')) return array();
    const std::string_view text = bare(",}]");
    return bare_json(text).value_or(json_string(text));
  }

  std::string array() {
    std::string json = "[";
    list(']', [&] { json += (json.size() > 1 ? ", " : "") + value(); });
    return json + "]";
  }

  /// An opening bracket, items with commas between, the closing one.
  template <class Item>
  void list(char close, Item&& item) {
    if (++depth_ > kDeepest) return fail();
    rest_.remove_prefix(1);
    skip_spaces();
    while (!failed_ && !rest_.starts_with(close)) {
      item();
      skip_spaces();
      if (!rest_.starts_with(close)) expect(',');
      skip_spaces();
    }
    if (!failed_) expect(close);
    --depth_;
  }

  std::string_view quoted() {
    rest_.remove_prefix(kQuote.size());
    const std::size_t end = rest_.find(kQuote);
    if (end == std::string_view::npos) return fail(), "";
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + kQuote.size());
    return text;
  }

  std::string_view bare(std::string_view ends) {
    const std::size_t end = rest_.find_first_of(ends);
    if (end == std::string_view::npos) return fail(), "";
    const std::string_view text = without_spaces(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }

  void expect(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return fail();
    rest_.remove_prefix(1);
  }
  void skip_spaces() { rest_.remove_prefix(spaces_at_start(rest_)); }
  void fail() {
    failed_ = true;
    rest_ = {};
  }

  std::string_view rest_;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<std::string> json_of_gemma(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  GemmaReader reader(text);
  std::string json = reader.object();
  return reader.failed() ? std::nullopt : std::optional(std::move(json));
}

}  // namespace cria
