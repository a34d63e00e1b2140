#include "tokenizer/jinja/values/text.h"

#include <algorithm>
#include <utility>

namespace cria::jinja {

Text::Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), trusted});
}

bool Text::trusted_at(std::size_t at) const {
  if (runs_.empty()) return true;
  const auto run = std::ranges::upper_bound(runs_, at, {}, &Run::end);
  return run == runs_.end() ? runs_.back().trusted : run->trusted;
}

Text Text::part(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

void Text::append(const Text& more, std::size_t begin, std::size_t end) {
  auto run = std::ranges::upper_bound(more.runs_, begin, {}, &Run::end);
  for (std::size_t at = begin; at < end; ++run) {
    const std::size_t stop = std::min(end, run->end);
    append(std::string_view(more.bytes_).substr(at, stop - at), run->trusted);
    at = stop;
  }
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().trusted == trusted)
    runs_.back().end = bytes_.size();
  else
    runs_.push_back({bytes_.size(), trusted});
}

}  // namespace cria::jinja
