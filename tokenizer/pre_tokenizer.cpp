#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>

#include "model/error.h"
#include "tokenizer/jinja/unicode.h"

namespace cria {

namespace {

/// A way to cut texts and the names that files have for it. The expressions are those of the models' own
/// tokenizers (tokenizer.json), applied one after the other.
struct Kind {
  std::initializer_list<std::string_view> names;
  std::initializer_list<std::string_view> patterns;
  bool ignore_merges = false;
};

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTiktoken3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTiktoken1 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters of the scripts that have case, as the models' list has them.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a})"
    R"(\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b})"
    R"(\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc})"
    R"(\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107})"
    R"(\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134})"
    R"(\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})"
    R"(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a})"
    R"(\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2})"
    R"(\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";
constexpr std::string_view kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepSeekCjk = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
// `\s+$` of the models, but not again from every space of a run that does not end the text.
constexpr std::string_view kSpaceAtEnd = R"((?<!\s)\s++\z)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";

const Kind kKinds[] = {
    {{"default"}, {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "exaone4",
      "a.x-4.0", "mellum", "roberta-bpe", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de",
      "jina-v2-code"},
     {kGpt2}},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {kTiktoken3},
     true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {kTiktoken3}},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2", "kormo"}, {kTiktoken1}},
    {{"deepseek-llm"},
     {"[\r\n]", kDeepSeekLetters, kDeepSeekPunctuation, kSpaceAtEnd, kDeepSeekCjk, R"(\p{N})"}},
    {{"deepseek-coder"}, {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, R"(\p{N})"}},
    {{"deepseek-v3", "hunyuan-dense"},
     {R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)", kDeepSeekV3}},
    {{"falcon"}, {R"([\p{P}$+<=>^~|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
    {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"},
     {R"(\p{N})", kGpt2}},
    {{"tekken"}, {kTekken}, true},
    {{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {kGpt4o}},
    {{"seed-coder"}, {kSeedCoder}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
    {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
    {{"viking"}, {kBloom, R"(\p{N})"}},
    {{"chameleon"},
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])",
      kGpt2}},
};

/// The expression with \s and \S as its authors' engines have them, Unicode's White_Space: PCRE2 adds U+180E.
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

/// The expression with characters themselves in place of \x{263a} and \u263a, and as its authors wrote it
/// where the table has another that does the same.
std::string canonical(std::string_view pattern) {
  if (pattern == kSpaceAtEnd) return R"(\s+$)";
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
      jinja::append_utf8(out, code);
      i = braces ? end : end - 1;
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

}  // namespace

namespace {

const Kind& find_kind(std::string_view name) {
  if (name.empty()) name = "default";
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& candidate) {
    return std::find(candidate.names.begin(), candidate.names.end(), name) != candidate.names.end();
  });
  if (kind == std::end(kKinds)) {
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
  const Kind& kind = find_kind(name);
  ignore_merges_ = kind.ignore_merges;
  for (const std::string_view pattern : kind.patterns)
    stages_.push_back({Regex(with_white_space(pattern)), shortcut(pattern)});
}

std::string_view PreTokenizer::name_of(const std::vector<std::string>& expressions, bool ignores_merges) {
  std::string_view name;
  for (const Kind& kind : kKinds) {
    const bool same = std::equal(
        kind.patterns.begin(), kind.patterns.end(), expressions.begin(), expressions.end(),
        [](std::string_view ours, std::string_view theirs) { return canonical(ours) == canonical(theirs); });
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
  for (const Kind& kind : kKinds) all.insert(all.end(), kind.names.begin(), kind.names.end());
  return all;
}

}  // namespace cria
