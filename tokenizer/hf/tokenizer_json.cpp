#include "tokenizer/hf/formats.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tokenizer/bpe/pre_tokenizer.h"

namespace cria {
namespace {

constexpr const char* kAtSpaces = "Split at spaces";

/// Reads the parts of one tokenizer.json.
class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const SortedJson& json, const std::string& file, VocabularyBuilder& to)
      : json_(json), file_(file), to_(to) {}

  void read(const TokenizerJsonOptions& options) {
    if (!json_.is_object()) throw Error(file_, "not a tokenizer: expected a JSON object");
    const SortedJson& model = json_member(json_, "model");
    const std::string kind = json_text(model, "type").value_or("BPE");
    if (kind == "WordPiece" || kind == "Unigram") {
      if (kind == "WordPiece")
        read_word_pieces(model);
      else
        read_unigram(model);
      return additions();
    }
    if (kind != "BPE")
      fail("model.type",
           "unknown kind of vocabulary: expected BPE, WordPiece or Unigram, got " + kind);
    collect_steps(json_member(json_, "pre_tokenizer"), true);
    collect_steps(json_member(json_, "normalizer"), false);
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const auto affix = json_text(model, key).value_or(""); !affix.empty())
        fail("model." + std::string(key),
             "unsupported prefix or suffix of tokens: expected none, got " + affix);
    const SortedJson& vocabulary = json_member(model, "vocab");
    if (!vocabulary.is_object() || vocabulary.empty())
      fail("model.vocab", "missing: expected {\"TOKEN\": id}");
    if (byte_level_)
      read_byte_level(model, vocabulary, options.pre);
    else if (vocabulary.contains("<0x00>"))
      read_byte_fallback(model, vocabulary, options.listed_merges);
    else
      fail("pre_tokenizer",
           "unknown kind of vocabulary: expected a byte-level or byte-fallback one");
    additions();
  }

  void additions() {
    added_tokens();
    post_processor();
  }

 private:
  /// Steps of the pre-tokenizer or normalizer, sequences unfolded.
  void collect_steps(const SortedJson& step, bool cuts_words, int depth = 0) {
    if (!step.is_object() || depth > 4) return;
    for (const char* list : {"pretokenizers", "normalizers"}) {
      const SortedJson& steps = json_member(step, list);
      if (steps.is_array())
        for (const SortedJson& each : steps) collect_steps(each, cuts_words, depth + 1);
    }
    const std::string type = json_text(step, "type").value_or("");
    if (type == "ByteLevel") {
      byte_level_ = true;
      first_space_ |= json_flag(step, "add_prefix_space", true);
      if (json_flag(step, "use_regex", true)) expressions_.insert(expressions_.end(), gpt2_words());
    } else if (type == "Split") {
      split(step);
    } else if (type == "Digits") {
      expressions_.emplace_back(json_flag(step, "individual_digits", false) ? R"(\p{N})"
                                                                            : R"(\p{N}+)");
    } else if (type == "Metaspace") {
      space_prefix_ |= json_text(step, "prepend_scheme").value_or("always") != "never" &&
                       json_flag(step, "add_prefix_space", true);
    } else if (type == "Prepend") {
      space_prefix_ = true;
    } else if (type == "Replace") {
      if (json_text(json_member(step, "pattern"), "String") != " " ||
          json_text(step, "content") != "▁")
        fail_step(type);
    } else if (cuts_words && !type.empty() && type != "Sequence") {
      expressions_.push_back(type);  // an unknown name: Punctuation, Whitespace, …
    } else if (!type.empty() && type != "Sequence" && !type.starts_with("NF")) {
      fail_step(type);
    }
  }

  /// Unicode normalization (NFC, NFKC, …) is ignored by design; other changes of the text are not.
  [[noreturn]] void fail_step(const std::string& type) const {
    fail("normalizer",
         R"(unknown change of the text: expected "Prepend", or "Replace" of " " by "▁", got )" +
             type);
  }

  static std::string gpt2_words() { return PreTokenizer::expressions("gpt-2").front(); }

  void split(const SortedJson& step) {
    const SortedJson& pattern = json_member(step, "pattern");
    const std::string regex = json_text(pattern, "Regex").value_or("");
    if (json_text(pattern, "String") == " ") return expressions_.emplace_back(kAtSpaces), void();
    const std::string behavior = json_text(step, "behavior").value_or("");
    // Removing the gaps changes nothing if pre-tokens cover the text, as all known ones do.
    const bool isolated =
        behavior == "Isolated" || (behavior == "Removed" && json_flag(step, "invert", false));
    expressions_.push_back(isolated && !regex.empty() ? regex : "Split");
  }

  void read_byte_level(const SortedJson& model, const SortedJson& vocabulary,
                       const std::string& pre) {
    Vocabulary& out = to_.vocabulary();
    out.model = "gpt2";
    out.add_space_prefix = space_prefix_ || first_space_;
    if (first_space_)
      out.warnings.emplace_back(
          "add_prefix_space is ignored: no space is added before the first word of a text");
    out.pre = pre.empty()
                  ? PreTokenizer::name_of(expressions_, json_flag(model, "ignore_merges", false))
                  : pre;
    if (out.pre.empty()) {
      std::string got;
      for (const std::string& expression : expressions_)
        got += (got.empty() ? "" : "  ") + expression;
      fail("pre_tokenizer", "unknown pre-tokenizer (choose one by --pre NAME): got " + got);
    }
    for (const auto& [token, id] : vocabulary.items())
      to_.add(id_of(id, token), token, TokenType::Normal);
    merges(model, [&](const std::string& left, const std::string& right) {
      to_.add_merge(left + " " + right);
    });
  }

  /// The library merges by rank, a "llama" vocabulary by the score of the result. A token's score
  /// is its first merge's rank, negated; tokens without a merge come last.
  void read_byte_fallback(const SortedJson& model, const SortedJson& vocabulary, bool listed) {
    Vocabulary& out = to_.vocabulary();
    for (const std::string& expression : expressions_)  // a normalizer has replaced the spaces
      if (expression != kAtSpaces)
        fail("pre_tokenizer",
             "unsupported pre-tokenizer of a byte-fallback vocabulary: expected none, got " +
                 expression);
    out.model = listed ? "gemma4" : "llama";
    out.pre = "default";
    out.add_space_prefix = space_prefix_;
    std::unordered_map<std::string, std::size_t> ranks;
    std::size_t n_merges = 0;
    merges(model, [&](const std::string& left, const std::string& right) {
      if (listed) to_.add_merge(left + " " + right);
      ranks.try_emplace(left + right, n_merges++);
    });
    const std::string unknown = json_text(model, "unk_token").value_or("<unk>");
    for (const auto& [token, id] : vocabulary.items()) {
      const auto rank = ranks.find(token);
      const bool byte = byte_value(token) >= 0;
      const float score = byte || token == unknown ? 0.F
                          : rank == ranks.end()    ? -static_cast<float>(n_merges)
                                                   : -static_cast<float>(rank->second);
      to_.add(id_of(id, token), token,
              token == unknown ? TokenType::Unknown
              : byte           ? TokenType::Byte
                               : TokenType::Normal,
              score);
    }
    out.unk = to_.find(unknown);
    out.add_bos = true;
  }

  /// BERT's vocabulary and the flags of its normalizer.
  void read_word_pieces(const SortedJson& model) {
    const SortedJson& vocabulary = json_member(model, "vocab");
    if (!vocabulary.is_object() || vocabulary.empty())
      fail("model.vocab", "missing: expected {\"TOKEN\": id}");
    if (json_text(model, "continuing_subword_prefix").value_or("##") != "##")
      fail("model.continuing_subword_prefix", "expected ##");
    const SortedJson& normalizer = json_member(json_, "normalizer");
    if (json_text(normalizer, "type") != "BertNormalizer")
      fail("normalizer", "unknown change of the text: expected BertNormalizer");
    for (const char* key : {"clean_text", "handle_chinese_chars"})
      if (!json_flag(normalizer, key, true))
        fail(std::string("normalizer.") + key, "expected true");
    if (json_text(json_member(json_, "pre_tokenizer"), "type") != "BertPreTokenizer")
      fail("pre_tokenizer", "expected BertPreTokenizer");
    std::vector<std::string> tokens(vocabulary.size());
    for (const auto& [token, id] : vocabulary.items()) {
      const std::uint64_t at = id_of(id, token);
      if (at >= tokens.size() || !tokens[at].empty())
        fail("model.vocab", "expected ids from 0 to " + std::to_string(tokens.size() - 1) +
                                ", each once, got " + std::to_string(at));
      tokens[at] = token;
    }
    add_word_pieces(tokens, json_text(model, "unk_token").value_or("[UNK]"), to_);
    Vocabulary& out = to_.vocabulary();
    out.lower_case = json_flag(normalizer, "lowercase", true);
    out.strip_accents = json_flag(normalizer, "strip_accents", out.lower_case);
  }

  /// A SentencePiece model with scores, and its normalization in base64.
  void read_unigram(const SortedJson& model) {
    const SortedJson& vocabulary = json_member(model, "vocab");
    if (!vocabulary.is_array() || vocabulary.empty())
      fail("model.vocab", "missing: expected a list of [TOKEN, score]");
    const SortedJson& unknown = json_member(model, "unk_id");
    if (!unknown.is_number_unsigned() || unknown.get<std::uint64_t>() >= vocabulary.size())
      fail("model.unk_id", "expected the id of a token");
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      const SortedJson& entry = vocabulary[id];
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        fail("model.vocab",
             "bad entry at index " + std::to_string(id) + ": expected [TOKEN, score]");
      const auto token = entry[0].get<std::string>();
      to_.add(id, token,
              unknown == id            ? TokenType::Unknown
              : byte_value(token) >= 0 ? TokenType::Byte
                                       : TokenType::Normal,
              entry[1].get<float>());
    }
    Vocabulary& out = to_.vocabulary();
    out.model = "t5";
    out.pre = "default";
    out.unk = static_cast<TokenId>(unknown.get<std::uint64_t>());
    out.remove_extra_whitespaces = true;
    unigram_steps(json_member(json_, "pre_tokenizer"));
    unigram_steps(json_member(json_, "normalizer"));
    out.add_space_prefix = space_prefix_;
  }

  void unigram_steps(const SortedJson& step, int depth = 0) {
    if (!step.is_object() || depth > 4) return;
    for (const char* list : {"pretokenizers", "normalizers"})
      if (const SortedJson& steps = json_member(step, list); steps.is_array())
        for (const SortedJson& each : steps) unigram_steps(each, depth + 1);
    const std::string type = json_text(step, "type").value_or("");
    if (type == "Precompiled")
      to_.vocabulary().precompiled_charsmap = from_base64(json_text(step, "precompiled_charsmap"));
    else if (type == "Metaspace")
      space_prefix_ = json_text(step, "prepend_scheme").value_or("always") != "never" &&
                      json_flag(step, "add_prefix_space", true);
    else if (type != "Sequence" && type != "WhitespaceSplit" && type != "Strip" &&
             !(type == "Replace" && json_text(step, "content") == " "))  // several spaces by one
      fail("normalizer", "unknown step of a Unigram tokenizer: got " + type);
  }

  [[nodiscard]] std::string from_base64(const std::optional<std::string>& digits) const {
    std::string bytes;
    std::uint32_t bits = 0;
    int count = 0;
    for (const char c : digits.value_or("")) {
      constexpr std::string_view kDigits =
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      if (c == '=') break;
      const std::size_t digit = kDigits.find(c);
      if (digit == std::string_view::npos)
        fail("normalizer.precompiled_charsmap", "expected base64");
      bits = bits << 6U | static_cast<std::uint32_t>(digit);
      if ((count += 6) < 8) continue;
      count -= 8;
      bytes += static_cast<char>(bits >> count & 255U);
    }
    return bytes;
  }

  template <typename Sink>
  void merges(const SortedJson& model, Sink&& sink) const {
    const SortedJson& list = json_member(model, "merges");
    if (!list.is_array()) fail("model.merges", "missing: expected a list");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const SortedJson& merge = list[i];
      std::string left, right;
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else if (merge.is_string()) {
        const auto& both = merge.get_ref<const std::string&>();
        const std::size_t space = both.find(' ', 1);
        left = both.substr(0, space);
        right = space == std::string::npos ? "" : both.substr(space + 1);
      }
      if (left.empty() || right.empty())
        fail("model.merges", "bad merge at index " + std::to_string(i) + ": expected two parts");
      sink(left, right);
    }
  }

  void added_tokens() {
    const SortedJson& list = json_member(json_, "added_tokens");
    if (!list.is_array()) return;
    for (const SortedJson& token : list) {
      const auto content = json_text(token, "content");
      if (!content) fail("added_tokens", "a token without content");
      to_.add_extra(id_of(json_member(token, "id"), *content), *content,
                    json_flag(token, "special", false));
    }
  }

  /// BOS and EOS, if a template adds special tokens before or after the text.
  void post_processor() {
    const SortedJson& processor = json_member(json_, "post_processor");
    const SortedJson& several = json_member(processor, "processors");
    const SortedJson one = SortedJson::array({processor});
    for (const SortedJson& each : several.is_array() ? several : one) {
      if (json_text(each, "type") != "TemplateProcessing") continue;
      const SortedJson& parts = json_member(each, "single");
      if (!parts.is_array() || parts.empty()) continue;
      set_template_token(parts.front(), to_.vocabulary().add_bos, to_.vocabulary().bos);
      if (parts.size() > 1)
        set_template_token(parts.back(), to_.vocabulary().add_eos, to_.vocabulary().eos);
    }
  }

  void set_template_token(const SortedJson& part, bool& adds, std::optional<TokenId>& token) const {
    const auto id = json_text(json_member(part, "SpecialToken"), "id");
    adds = id.has_value() && to_.find(*id).has_value();
    if (adds) token = to_.find(*id);
  }

  [[nodiscard]] std::uint64_t id_of(const SortedJson& id, const std::string& token) const {
    if (!id.is_number_unsigned())
      throw Error(file_, "bad token id: expected a number from 0", "token " + token);
    return id.get<std::uint64_t>();
  }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw Error(file_, message, "key " + key);
  }

  const SortedJson& json_;
  const std::string& file_;
  VocabularyBuilder& to_;
  bool byte_level_ = false, space_prefix_ = false, first_space_ = false;
  std::vector<std::string> expressions_;
};

// Writing. SortedJson objects are sorted: an ordered one would search its 150,000 tokens linearly.
// The library's defaults are written out, as in its own files.

SortedJson added_tokens(const Vocabulary& vocabulary) {
  SortedJson list = SortedJson::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_added(vocabulary.types[id])) continue;
    list.push_back(added_token(vocabulary, id));
    list.back()["id"] = id;
  }
  return list;
}

SortedJson byte_pairs(const Vocabulary& vocabulary) {
  SortedJson tokens = SortedJson::object(), merges = SortedJson::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    // Includes added tokens: otherwise the library renumbers them.
    if (vocabulary.types[id] != TokenType::Unused) tokens[std::string(vocabulary.tokens[id])] = id;
  }
  for (const std::string_view merge : vocabulary.merges) merges.push_back(merge);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", PreTokenizer(vocabulary.pre).ignores_merges()},
          {"vocab", std::move(tokens)},
          {"merges", std::move(merges)}};
}

SortedJson byte_level(const Vocabulary& vocabulary) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", vocabulary.add_space_prefix},
          {"trim_offsets", true},
          {"use_regex", false}};
}

SortedJson pre_tokenizer(const Vocabulary& vocabulary) {
  SortedJson steps = SortedJson::array();
  for (const std::string& expression : PreTokenizer::expressions(vocabulary.pre))
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back(byte_level(vocabulary));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

/// The template that adds BOS and EOS to one text ("A") or two.
SortedJson post_processor(const Vocabulary& vocabulary) {
  if (!vocabulary.add_bos && !vocabulary.add_eos) return byte_level(vocabulary);
  SortedJson special = SortedJson::object();
  const auto parts = [&](const char* sequence, int type) {
    SortedJson list = SortedJson::array();
    const auto put = [&](bool adds, std::optional<TokenId> id) {
      if (!adds || !id) return;
      const std::string text(vocabulary.tokens[static_cast<std::size_t>(*id)]);
      list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
      special[text] = {
          {"id", text}, {"ids", SortedJson::array({*id})}, {"tokens", SortedJson::array({text})}};
    };
    put(vocabulary.add_bos, vocabulary.bos);
    list.push_back({{"Sequence", {{"id", sequence}, {"type_id", type}}}});
    put(vocabulary.add_eos, vocabulary.eos);
    return list;
  };
  const SortedJson single = parts("A", 0);
  SortedJson pair = single;
  for (const SortedJson& part : parts("B", 1)) pair.push_back(part);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

}  // namespace

void read_tokenizer_json(const SortedJson& json, const std::string& file,
                         const TokenizerJsonOptions& options, VocabularyBuilder& to) {
  TokenizerJsonReader(json, file, to).read(options);
}

void add_word_pieces(std::span<const std::string> tokens, const std::string& unknown,
                     VocabularyBuilder& to) {
  constexpr std::string_view kContinues = "##";
  Vocabulary& out = to.vocabulary();
  out.model = "bert";
  out.pre = "default";
  out.add_bos = out.add_eos = true;
  out.add_space_prefix = false;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    if (token == unknown)
      to.add(id, token, TokenType::Unknown);
    else if (token.starts_with(kContinues) && token.size() > kContinues.size())
      to.add(id, std::string_view(token).substr(kContinues.size()), TokenType::Normal);
    else
      to.add(id, kWordMark + token, TokenType::Normal);
  }
  out.unk = to.find(unknown);
}

bool is_added(TokenType type) {
  return type == TokenType::Control || type == TokenType::UserDefined || type == TokenType::Unknown;
}

SortedJson added_token(const Vocabulary& vocabulary, std::size_t id) {
  return {{"content", vocabulary.tokens[id]},
          {"single_word", false},
          {"lstrip", vocabulary.strips_before(static_cast<TokenId>(id))},
          {"rstrip", vocabulary.strips_after(static_cast<TokenId>(id))},
          {"normalized", false},
          {"special", vocabulary.types[id] != TokenType::UserDefined}};
}

const SortedJson& json_member(const SortedJson& object, const char* key) {
  static const SortedJson null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::optional<std::string> json_text(const SortedJson& object, const char* key) {
  const SortedJson& value = json_member(object, key);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

bool json_flag(const SortedJson& object, const char* key, bool fallback) {
  const SortedJson& value = json_member(object, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

void read_added_tokens(const SortedJson& json, const std::string& file, VocabularyBuilder& to) {
  TokenizerJsonReader(json, file, to).additions();
}

SortedJson tokenizer_json(const Vocabulary& vocabulary) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer(vocabulary)},
          {"post_processor", post_processor(vocabulary)},
          {"decoder", byte_level(vocabulary)},
          {"model", byte_pairs(vocabulary)}};
}

}  // namespace cria
