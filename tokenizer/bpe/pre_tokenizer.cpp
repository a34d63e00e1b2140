#include "tokenizer/bpe/pre_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "model/error.h"

namespace cria {

namespace {

// \b after digits, as in the authors' engine, Oniguruma. Its word characters are letters, marks,
// letters among numbers and symbols, connectors, and the Latin-1 numbers ("10²"). A run that ends
// otherwise is not split at all.
constexpr std::string_view kDigitsAtWordEnd =
    R"((?<!\d)\d++(?![\p{L}\p{M}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})"
    R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}]))";

constexpr DigitGroups kGroups[] = {
    {kCutsBeforeThrees, R"(\d++)", false},
    {kDigitsInThreesAtWordEnds, kDigitsAtWordEnd, true},
    {kNumbersInThrees, R"(\p{N}++)", true},
};

}  // namespace

const DigitGroups* DigitGroups::of(std::string_view expression) {
  const auto* const found = std::ranges::find(kGroups, expression, &DigitGroups::expression);
  return found == std::end(kGroups) ? nullptr : found;
}

namespace {

/// The expression with \s and \S as its authors' engines have them, Unicode's White_Space: PCRE2
/// adds U+180E.
std::string with_white_space(std::string_view pattern) {
  constexpr std::string_view kWhiteSpace =
      R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\') {
      in_class = pattern[i] == '[' || (in_class && pattern[i] != ']');
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's' && in_class)
      out += kWhiteSpace;
    else if (escaped == 's' || escaped == 'S')
      out.append(escaped == 's' ? "[" : "[^").append(kWhiteSpace).append("]");
    else
      out += {'\\', escaped};
  }
  return out;
}

/// The expression with characters in place of \x{263a} and \u263a, and in the authors' spelling if
/// the table has an equivalent one.
std::string canonical(std::string_view pattern) {
  if (pattern == kSpaceAtEnd) return R"(\s+$)";
  constexpr std::string_view kScript =
      R"(\p{sc:)";  // without it PCRE2 means the script's extensions too
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool braces = pattern.substr(i).starts_with("\\x{");
    const std::size_t digits = i + (braces ? 3 : 2);
    const std::size_t end = braces ? std::min(pattern.find('}', i), pattern.size()) : i + 6;
    std::uint32_t code = 0;
    if ((braces || pattern.substr(i).starts_with("\\u")) && end <= pattern.size() &&
        std::from_chars(pattern.data() + digits, pattern.data() + end, code, 16).ptr ==
            pattern.data() + end &&
        code > 0x7F) {
      append_utf8(out, code);
      i = braces ? end : end - 1;
    } else if (pattern.substr(i).starts_with(kNotAfterSpace)) {
      i += kNotAfterSpace.size() - 1;
    } else if (pattern.substr(i).starts_with(kScript)) {
      out += R"(\p{)";
      i += kScript.size() - 1;
    } else {
      out += pattern[i];
      if (pattern[i] == '\\' && i + 1 < pattern.size()) out += pattern[++i];
    }
  }
  return out;
}

AsciiWords shortcut(std::string_view pattern) {
  return pattern == kGpt2        ? AsciiWords::Gpt2
         : pattern == kTiktoken1 ? AsciiWords::Tiktoken1
         : pattern == kTiktoken3 ? AsciiWords::Tiktoken3
                                 : AsciiWords::None;
}

const WordKind& find_kind(std::string_view name) {
  if (name.empty()) name = "default";
  const auto kind = std::ranges::find_if(word_kinds(), [&](const WordKind& candidate) {
    return std::ranges::count(candidate.names, name) != 0;
  });
  if (kind == word_kinds().end()) {
    std::string known;
    for (const std::string_view each : PreTokenizer::names())
      known.append(known.empty() ? "" : ", ").append(each);
    throw Error("",
                "unknown pre-tokenizer (--pre NAME overrides it): expected " + known + ", got '" +
                    std::string(name) + "'",
                "key tokenizer.ggml.pre");
  }
  return *kind;
}

}  // namespace

PreTokenizer::PreTokenizer(std::string_view name) {
  const WordKind& kind = find_kind(name);
  ignore_merges_ = kind.ignore_merges;
  joins_words_ = kind.joins_words;
  for (const std::string_view pattern : kind.patterns) {
    const DigitGroups* groups = DigitGroups::of(pattern);
    stages_.push_back({Regex(with_white_space(groups != nullptr ? groups->run : pattern)),
                       shortcut(pattern), groups});
  }
}

std::string_view PreTokenizer::name_of(const std::vector<std::string>& expressions,
                                       bool ignores_merges) {
  std::string_view name;
  for (const WordKind& kind : word_kinds()) {
    const bool same =
        std::equal(kind.patterns.begin(), kind.patterns.end(), expressions.begin(),
                   expressions.end(), [](std::string_view ours, std::string_view theirs) {
                     return canonical(ours) == canonical(theirs);
                   });
    if (same && (name.empty() || kind.ignore_merges == ignores_merges)) name = *kind.names.begin();
    if (same && kind.ignore_merges == ignores_merges) break;
  }
  return name;
}

std::vector<std::string> PreTokenizer::expressions(std::string_view name) {
  std::vector<std::string> all;
  for (const std::string_view pattern : find_kind(name).patterns) all.push_back(canonical(pattern));
  return all;
}

std::vector<std::string_view> PreTokenizer::names() {
  std::vector<std::string_view> all;
  for (const WordKind& kind : word_kinds())
    all.insert(all.end(), kind.names.begin(), kind.names.end());
  return all;
}

}  // namespace cria
