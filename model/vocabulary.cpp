#include "model/vocabulary.h"

#include <algorithm>
#include <cstdlib>

#include "model/file/utf8.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {
namespace {

// Tokens that end an answer in the chat formats of known models, also where no key of the file says
// so.
constexpr std::string_view kEndTexts[] = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<end_of_turn>", "<turn|>",
    "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|return|>", "<|call|>", "<|calls|>",
    "<|flush|>", "<EOT>", "<|EOT|>", "_<EOT>", "[EOT]", "[EOS]", "<eos>", "[e~[",
    "<end_of_utterance>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|endofturn|>",
    "[|endofturn|]", "<|endofresponse|>", "<|assistant_end|>",
    // A tool's answer comes next, which is not the model's to write.
    "<|tool_response>",
    // Padding, and the start of a repository's next file.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<reponame>", "<|file_sep|>"};
// Names of the end of a text, for files whose keys say nothing at all.
constexpr std::string_view kLastResorts[] = {"</s>",  "<eos>",           "<|eos|>",
                                             "[EOS]", "<|end_of_text|>", "<|endoftext|>"};

// Pre-tokenizers whose models expect a BOS although the tokenizer model "gpt2" has none by default.
constexpr std::string_view kPreWithBos[] = {"llama3",    "llama-v3",  "llama-bpe",   "falcon3",
                                            "falcon-h1", "pixtral",   "midm-2.0",    "lfm2",
                                            "tekken",    "chameleon", "jina-v5-nano"};

template <typename List>
bool contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

class VocabularyReader {
 public:
  VocabularyReader(const GgufFile& file, Vocabulary& out) : file_(file), out_(out) {}

  void read() {
    out_.file = file_.path();
    out_.model = file_.get_string("tokenizer.ggml.model");
    out_.pre = file_.find_string("tokenizer.ggml.pre").value_or("");
    tokens();
    scores();
    types();
    merges();
    special_tokens();
    flags();
    charsmap();
    out_.chat_template = file_.find_string("tokenizer.chat_template").value_or("");
    out_.tool_template = file_.find_string("tokenizer.chat_template.tool_use").value_or("");
    end_of_generation();
    out_.fim = FimTokens::from_gguf(file_, out_);
    suppressed();
    stripping();
  }

 private:
  [[nodiscard]] bool sentencepiece() const { return out_.model == "llama"; }

  void tokens() {
    constexpr std::string_view key = "tokenizer.ggml.tokens";
    auto tokens = file_.find_strings(key);
    if (!tokens) throw file_.error("missing key", "key tokenizer.ggml.tokens");
    if (tokens->empty()) throw file_.error("empty vocabulary", "key tokenizer.ggml.tokens");
    std::size_t empty = 0;
    std::size_t invalid = 0;
    for (std::size_t i = 0; i < tokens->size(); ++i) {
      const std::string_view token = (*tokens)[i];
      if (token.size() > limits::kTokenBytes) {
        throw file_.error("token " + std::to_string(i) + " is too long: expected at most " +
                              std::to_string(limits::kTokenBytes) + " bytes, got " +
                              std::to_string(token.size()),
                          "key tokenizer.ggml.tokens");
      }
      empty += token.empty() ? 1 : 0;
      invalid += is_utf8(token) ? 0 : 1;
    }
    if (empty != 0) warn("empty: " + counted(empty, "token") + " of the vocabulary");
    if (invalid != 0) warn("not UTF-8: " + counted(invalid, "token") + " of the vocabulary");
    out_.tokens = std::move(*tokens);
  }

  void scores() {
    constexpr std::string_view key = "tokenizer.ggml.scores";
    out_.scores = file_.find_floats(key).value_or(std::vector<float>());
    if (!out_.scores.empty()) check_length(key, out_.scores.size());
  }

  void types() {
    constexpr std::string_view key = "tokenizer.ggml.token_type";
    const auto numbers = file_.find_ints(key);
    out_.types.assign(out_.tokens.size(), TokenType::Normal);
    if (!numbers) return;
    check_length(key, numbers->size());
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < numbers->size(); ++i) {
      const std::int64_t type = (*numbers)[i];
      if (type < 0 || type > static_cast<std::int64_t>(TokenType::Byte)) {
        throw file_.error("unknown token type at index " + std::to_string(i) +
                              ": expected 0 to 6, got " + std::to_string(type),
                          "key tokenizer.ggml.token_type");
      }
      out_.types[i] = static_cast<TokenType>(type);
      if (out_.types[i] != TokenType::Byte) continue;
      ++bytes;
      if (byte_value(out_.tokens[i]) < 0) {
        throw file_.error("bad byte token " + std::to_string(i) +
                              ": expected <0x00> to <0xFF>, got '" +
                              std::string(out_.tokens[i].substr(0, 32)) + "'",
                          "key tokenizer.ggml.tokens");
      }
    }
    if (sentencepiece() && bytes != 256)
      warn("expected 256 byte tokens, got " + std::to_string(bytes));
  }

  void merges() {
    constexpr std::string_view key = "tokenizer.ggml.merges";
    auto merges = file_.find_strings(key);
    if (!merges) {
      if (out_.model == "gpt2" || out_.model == "gemma4")
        throw file_.error("missing key", "key tokenizer.ggml.merges");
      return;
    }
    for (std::size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = (*merges)[i];
      const std::size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == merge.size()) {
        throw file_.error("bad merge at index " + std::to_string(i) +
                              ": expected two parts with a space between, got '" +
                              std::string(merge.substr(0, 64)) + "'",
                          "key tokenizer.ggml.merges");
      }
    }
    out_.merges = std::move(*merges);
  }

  void special_tokens() {
    const auto otherwise = [this](TokenId id) {
      return sentencepiece() ? std::optional(id) : std::nullopt;
    };
    out_.bos = token_id("tokenizer.ggml.bos_token_id", otherwise(1));
    out_.eos = token_id("tokenizer.ggml.eos_token_id", otherwise(2));
    out_.unk = token_id("tokenizer.ggml.unknown_token_id", otherwise(0));
    out_.sep = token_id_or_null("tokenizer.ggml.seperator_token_id");  // spelt so in the format
    out_.pad = token_id_or_null("tokenizer.ggml.padding_token_id");
    if (out_.model == "bert") {  // [CLS] text [SEP]
      if (!out_.bos) out_.bos = token_id("tokenizer.ggml.cls_token_id", std::nullopt);
      if (!out_.eos) out_.eos = out_.sep;
    }
    out_.eot = token_id("tokenizer.ggml.eot_token_id", std::nullopt);
    out_.eom = token_id("tokenizer.ggml.eom_token_id", std::nullopt);
  }

  std::optional<TokenId> token_id(std::string_view key, std::optional<TokenId> otherwise) const {
    const auto given = file_.find_uint(key);
    if (!given && !otherwise) return std::nullopt;
    const std::uint64_t id = given ? *given : static_cast<std::uint64_t>(*otherwise);
    if (id >= out_.tokens.size()) {
      throw file_.error(std::string(given ? "token" : "default token") +
                            " outside the vocabulary: expected less than " +
                            std::to_string(out_.tokens.size()) + ", got " + std::to_string(id),
                        "key " + std::string(key));
    }
    return static_cast<TokenId>(id);
  }

  /// For tokens that encoding does not use: converters write llama.cpp's -1 if a model has none.
  std::optional<TokenId> token_id_or_null(std::string_view key) const {
    return file_.find_uint(key) == UINT32_MAX ? std::nullopt : token_id(key, std::nullopt);
  }

  void flags() {
    const bool bert = out_.model == "bert", unigram = out_.model == "t5";
    const bool bos_by_default =
        sentencepiece() || bert || out_.model == "gemma4" || contains(kPreWithBos, out_.pre);
    out_.add_bos = file_.find_bool("tokenizer.ggml.add_bos_token")
                       .value_or(bos_by_default && out_.bos.has_value());
    out_.add_eos = file_.find_bool("tokenizer.ggml.add_eos_token")
                       .value_or((bert || unigram) && out_.eos.has_value());
    out_.add_sep =
        out_.sep && !bert && file_.find_bool("tokenizer.ggml.add_sep_token").value_or(true);
    if (out_.add_bos && !out_.bos)
      throw file_.error("add_bos_token without a BOS token", "key tokenizer.ggml.add_bos_token");
    if (out_.add_eos && !out_.eos)
      throw file_.error("add_eos_token without an EOS token", "key tokenizer.ggml.add_eos_token");
    if (out_.model == "gemma4" && !out_.add_bos && out_.bos) {
      out_.add_bos =
          true;  // the first files were written so by mistake; without it these models babble
      warn("add_bos_token is false, which no Gemma 4 model means: a BOS is put before texts");
    }
    out_.add_space_prefix =
        file_.find_bool("tokenizer.ggml.add_space_prefix").value_or(sentencepiece() || unigram);
    out_.remove_extra_whitespaces =
        file_.find_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(unigram);
    out_.lower_case = file_.find_bool("tokenizer.ggml.normalizer.lowercase").value_or(true);
    out_.strip_accents =
        file_.find_bool("tokenizer.ggml.normalizer.strip_accents").value_or(out_.lower_case);
  }

  void charsmap() {
    constexpr std::string_view key = "tokenizer.ggml.precompiled_charsmap";
    const GgufValue* const value = file_.find(key);
    if (value == nullptr) return;
    if (value->type != GgufType::Array ||
        (value->element != GgufType::U8 && value->element != GgufType::I8)) {
      throw file_.error("wrong type of a key: expected array of u8", "key " + std::string(key));
    }
    out_.precompiled_charsmap.assign(reinterpret_cast<const char*>(value->data), value->bytes);
  }

  void end_of_generation() {
    auto& ends = out_.end_of_generation;
    for (const auto& id : {out_.eos, out_.eot, out_.eom}) {
      if (id) ends.push_back(*id);
    }
    add_named(kEndTexts, ends);
    if (ends.empty()) add_named(kLastResorts, ends);
    drop_end_of_message(ends);
    if (ends.empty()) warn("no token ends an answer: neither keys nor names of tokens say which");
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  }

  /// In gpt-oss and similar models, an answer of several messages, each ended by <|end|>, continues
  /// until <|return|> or a call.
  void drop_end_of_message(std::vector<TokenId>& ends) const {
    const auto has = [&](std::string_view text) {
      return std::ranges::any_of(
          ends, [&](TokenId id) { return out_.tokens[static_cast<std::size_t>(id)] == text; });
    };
    const bool calls = has("<|call|>") || has("<|calls|>");
    if (!calls || !(has("<|return|>") || has("<|flush|>"))) return;
    std::erase_if(
        ends, [&](TokenId id) { return out_.tokens[static_cast<std::size_t>(id)] == "<|end|>"; });
  }

  /// Control and user-defined tokens by their texts; any token where the file gives no types.
  template <typename Texts>
  void add_named(const Texts& texts, std::vector<TokenId>& ids) const {
    const bool typed = file_.find("tokenizer.ggml.token_type") != nullptr;
    for (std::size_t i = 0; i < out_.tokens.size(); ++i) {
      const bool marker =
          out_.types[i] == TokenType::Control || out_.types[i] == TokenType::UserDefined;
      if ((marker || !typed) && contains(texts, out_.tokens[i]))
        ids.push_back(static_cast<TokenId>(i));
    }
  }

  /// Mostly placeholders of vision and audio.
  void suppressed() {
    constexpr std::string_view key = "tokenizer.ggml.suppress_tokens";
    for (const std::int64_t id : file_.find_ints(key).value_or(std::vector<std::int64_t>())) {
      if (id < 0 || static_cast<std::uint64_t>(id) >= out_.tokens.size())
        throw file_.error("token outside the vocabulary: expected less than " +
                              std::to_string(out_.tokens.size()) + ", got " + std::to_string(id),
                          "key " + std::string(key));
      out_.suppressed.push_back(static_cast<TokenId>(id));
    }
  }

  /// Not in any key: Phi-3's markers, except three, strip the line ends that its chat template
  /// writes after them (rstrip in its tokenizer_config.json). Markers of Phi-4's chats and code
  /// strip white space on both sides.
  void stripping() {
    std::string name(file_.find_string("general.name").value_or(""));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c == ' ' || c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    });
    const bool phi3 = file_.find_string("general.architecture") == "phi3" ||
                      name.find("phi-3") != std::string::npos ||
                      name.find("phi3") != std::string::npos;
    if (!phi3) return;
    if (!sentencepiece()) return phi4_stripping();
    constexpr std::string_view kKeep[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (std::size_t i = 0; i < out_.tokens.size(); ++i) {
      const bool marker = out_.types[i] == TokenType::Control ||
                          out_.types[i] == TokenType::UserDefined ||
                          out_.types[i] == TokenType::Unknown;
      if (marker && !contains(kKeep, out_.tokens[i]))
        out_.strip_after.push_back(static_cast<TokenId>(i));
    }
  }

  /// Phi-4-mini has the architecture, too, but other markers.
  void phi4_stripping() {
    constexpr std::string_view kChat[] = {"<|im_start|>", "<|im_sep|>", "<|im_end|>"};
    constexpr std::string_view kCode[] = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"};
    std::vector<TokenId> ids;
    add_named(kChat, ids);
    if (ids.size() != std::size(kChat)) return;
    add_named(kCode, ids);
    std::ranges::sort(ids);
    out_.strip_before = out_.strip_after = std::move(ids);
  }

  void check_length(std::string_view key, std::size_t length) const {
    if (length == out_.tokens.size()) return;
    throw file_.error("wrong length of an array: expected one entry per token, " +
                          std::to_string(out_.tokens.size()) + ", got " + std::to_string(length),
                      "key " + std::string(key));
  }

  void warn(std::string message) { out_.warnings.push_back(std::move(message)); }

  const GgufFile& file_;
  Vocabulary& out_;
};

}  // namespace

int byte_value(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const auto digit = [&](char c) {
    return kDigits.find(c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c);
  };
  const std::size_t high = digit(text[3]), low = digit(text[4]);
  if (high > 15 || low > 15) return -1;
  return static_cast<int>(high * 16 + low);
}

Vocabulary Vocabulary::from_gguf(const GgufFile& file) {
  Vocabulary vocabulary;
  VocabularyReader(file, vocabulary).read();
  return vocabulary;
}

}  // namespace cria
