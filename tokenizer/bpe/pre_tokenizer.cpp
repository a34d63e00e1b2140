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

/// The canonical expression with escapes for line ends and without repetitions by one.
std::string comparable(std::string_view pattern) {
  std::string out;
  const std::string text = canonical(pattern);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' || text[i] == '\n')
      out += text[i] == '\r' ? "\\r" : "\\n";
    else if (std::string_view(text).substr(i).starts_with("{1}"))
      i += 2;
    else
      out += text[i];
  }
  return out;
}

WordRules rules_of(std::string_view pattern) {
  return pattern == kGpt2        ? WordRules::Gpt2
         : pattern == kTiktoken1 ? WordRules::Tiktoken1
         : pattern == kTiktoken3 ? WordRules::Tiktoken3
                                 : WordRules::None;
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

/// The expressions to search with.
std::vector<std::string_view> matched(const WordKind& kind) {
  std::vector<std::string_view> expressions;
  for (const std::string_view pattern : kind.patterns) {
    const DigitGroups* const groups = DigitGroups::of(pattern);
    expressions.push_back(groups != nullptr ? groups->runs : pattern);
  }
  return expressions;
}

}  // namespace

PreTokenizer::PreTokenizer(std::string_view name) : PreTokenizer(find_kind(name)) {}

PreTokenizer::PreTokenizer(const WordKind& kind)
    : classes_(matched(kind)), ignore_merges_(kind.ignore_merges), joins_words_(kind.joins_words) {
  const std::vector<std::string_view> expressions = matched(kind);
  std::size_t i = 0;
  for (const std::string_view pattern : kind.patterns)
    stages_.push_back({Regex(classes_.translate(expressions[i++]), Regex::Text::Bytes),
                       rules_of(pattern), DigitGroups::of(pattern)});
}

std::string_view PreTokenizer::name_of(const std::vector<std::string>& expressions,
                                       bool ignores_merges) {
  std::string_view name;
  for (const WordKind& kind : word_kinds()) {
    const bool same =
        std::equal(kind.patterns.begin(), kind.patterns.end(), expressions.begin(),
                   expressions.end(), [](std::string_view ours, std::string_view theirs) {
                     return comparable(ours) == comparable(theirs);
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
