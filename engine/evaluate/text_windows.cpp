#include "engine/evaluate/text_windows.h"

#include <algorithm>
#include <string>

#include "model/error.h"
#include "model/plural.h"

namespace cria {

TextWindows::TextWindows(std::size_t n_tokens, const PerplexityOptions& options)
    : n_tokens_(n_tokens), window_(options.window), stride_(options.stride) {
  if (const std::size_t least = stride_ == 0 ? 3 : 2; window_ < least)  // else nothing is scored
    throw Error("", "window too short: expected at least " + counted(least, "token") + ", got " +
                        std::to_string(window_));
  if (stride_ > window_)
    throw Error("", "stride too long: expected at most the window of " + counted(window_, "token") +
                        ", got " + std::to_string(stride_));
  if (n_tokens_ < window_)
    throw Error("", "the text is too short: expected at least a window of " +
                        counted(window_, "token") + ", got " + std::to_string(n_tokens_));
  // With a stride the last window ends with the text and may be shorter; without, what is left is
  // not used.
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

}  // namespace cria
