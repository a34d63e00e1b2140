#include "tokenizer/fill_middle.h"

#include <algorithm>
#include <optional>
#include <span>

#include "model/vocabulary.h"

namespace cria {
namespace {

using Ids = std::vector<TokenId>;

Ids plain_tokens(const Tokenizer& tokenizer, std::string_view text) {
  const TextPart part{text, false};
  return tokenizer.encode_parts({&part, 1}, nullptr, true);
}

void append(Ids& to, const std::optional<TokenId>& marker, std::span<const TokenId> text) {
  if (marker) to.push_back(*marker);
  to.insert(to.end(), text.begin(), text.end());
}

/// Returns the tokens before PRE: the repository with its last files, at most `limit` tokens.
Ids repository(const Tokenizer& tokenizer, const std::vector<FillText::File>& files,
               std::size_t limit, bool& cut) {
  const FimTokens& fim = tokenizer.vocabulary().fim;
  Ids head, tail;
  if (fim.rep) append(head, fim.rep, plain_tokens(tokenizer, "project\n"));
  if (fim.sep) append(tail, fim.sep, plain_tokens(tokenizer, "current\n"));
  std::vector<Ids> chunks;
  std::size_t size = head.size() + tail.size();
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    Ids chunk;
    append(chunk, fim.sep, plain_tokens(tokenizer, file->name + "\n" + file->text + "\n"));
    size += chunk.size();
    if (size > limit) break;
    chunks.push_back(std::move(chunk));
  }
  cut = cut || chunks.size() < files.size();
  if (chunks.empty()) return {};
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk)
    append(head, std::nullopt, *chunk);
  append(head, std::nullopt, tail);
  return head;
}

}  // namespace

FillPrompt fill_prompt(const Tokenizer& tokenizer, const FillText& text, std::size_t limit) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  Ids prefix = plain_tokens(tokenizer, text.prefix), suffix = plain_tokens(tokenizer, text.suffix);
  const std::size_t markers = vocabulary.add_bos ? 4 : 3;
  const std::size_t space = limit - std::min(limit, markers);
  FillPrompt out;
  const std::size_t both = prefix.size() + suffix.size();
  const Ids files = repository(tokenizer, text.files, space - std::min(space, both), out.cut);
  if (both > space) {
    const std::size_t behind =
        std::min(suffix.size(), std::max(space / 4, space - std::min(space, prefix.size())));
    const std::size_t before = std::min(prefix.size(), space - behind);
    suffix.resize(behind);
    prefix.erase(prefix.begin(), prefix.end() - static_cast<std::ptrdiff_t>(before));
    out.cut = true;
  }
  append(out.tokens, vocabulary.add_bos ? vocabulary.bos : std::nullopt, files);
  append(out.tokens, vocabulary.fim.pre, prefix);
  append(out.tokens, vocabulary.fim.suf, suffix);
  append(out.tokens, vocabulary.fim.mid, {});
  return out;
}

}  // namespace cria
