#include "tokenizer/hf/vocabulary.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/file/mapping.h"
#include "model/file/utf8.h"
#include "model/limits.h"
#include "model/plural.h"
#include "tokenizer/hf/formats.h"
#include "tokenizer/tokenizer.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

// Limit of a tokenizer's files. tokenizer_config.json has six properties of each added token, and
// some models add 65,536.
constexpr JsonLimits kTokenizerLimits{.bytes = 256 << 20, .depth = 32, .values = 16 << 20};
constexpr std::size_t kModelBytes = 256 << 20, kTemplateBytes = 1 << 20;

// Texts of the ends of a turn and of a message, which have GGUF keys.
constexpr std::string_view kEndsOfTurn[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",
                                            "<|endoftext|>"};
constexpr std::string_view kEndOfMessage = "<|eom_id|>";

class HfVocabularyReader {
 public:
  HfVocabularyReader(const std::string& directory, const HfVocabularyOptions& options)
      : directory_(directory),
        options_(options),
        config_(json("tokenizer_config.json")),
        map_(json("special_tokens_map.json")),
        generation_(json("generation_config.json")) {}

  HfVocabulary read() {
    HfVocabulary out{tokens(), {}};
    builder_ = &out.builder;
    added_tokens();
    special_tokens();
    flags();
    out.builder.fill_holes();
    prefer_known_name();
    if (vocabulary().model == "gpt2") vocabulary().scores.clear();
    chat_templates(out.templates);
    return out;
  }

 private:
  VocabularyBuilder tokens() {
    const std::string model = path("tokenizer.model"), json = path("tokenizer.json");
    if (!fs::exists(model) && !fs::exists(json)) {
      if (fs::exists(path("sentencepiece.bpe.model"))) return shifted_pieces();
      if (fs::exists(path("vocab.txt"))) return words();
    }
    if (!fs::exists(model)) return byte_pairs(json);
    try {
      return pieces(model, json);
    } catch (const Error& error) {  // tiktoken's lists of ranks have the same name
      if (!fs::exists(json)) throw;
      VocabularyBuilder builder = byte_pairs(json);
      builder.vocabulary().warnings.push_back(std::string(error.what()) +
                                              "; tokenizer.json is taken");
      return builder;
    }
  }

  VocabularyBuilder byte_pairs(const std::string& json) {
    if (!fs::exists(json))
      throw Error(directory_,
                  std::string("no tokenizer: expected tokenizer.model or tokenizer.json") +
                      (fs::exists(path("tekken.json")) ? ", got tekken.json" : ""));
    VocabularyBuilder builder(options_.tokens, json);
    read_tokenizer_json(read_json(json, kTokenizerLimits), json,
                        {options_.pre, options_.listed_merges}, builder);
    return builder;
  }

  /// Transformers 5 writes tokens added to a tokenizer.model only into tokenizer.json.
  VocabularyBuilder pieces(const std::string& model, const std::string& json) {
    VocabularyBuilder builder(options_.tokens, model);
    read_pieces(model, builder);
    if (fs::exists(json)) read_added_tokens(read_json(json, kTokenizerLimits), json, builder);
    return builder;
  }

  static void read_pieces(const std::string& file, VocabularyBuilder& to) {
    const Mapping model(file, MapMode::Mmap, "a SentencePiece model");
    if (model.bytes().size() > kModelBytes) throw Error(file, "too large for a tokenizer");
    read_sentencepiece_model(model.bytes(), file, to);
  }

  /// BERT's list of tokens, one a line.
  VocabularyBuilder words() {
    const std::string file = path("vocab.txt");
    VocabularyBuilder builder(options_.tokens, file);
    const Mapping text(file, MapMode::Mmap, "a list of tokens");
    if (text.bytes().size() > kModelBytes) throw Error(file, "too large for a tokenizer");
    std::string_view rest(reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size());
    std::vector<std::string> lines;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      lines.emplace_back(rest.substr(0, end));
      if (lines.back().ends_with('\r')) lines.back().pop_back();
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
    add_word_pieces(lines, json_text(config_, "unk_token").value_or("[UNK]"), builder);
    Vocabulary& v = builder.vocabulary();
    v.lower_case = json_flag(config_, "do_lower_case", true);
    v.strip_accents = json_flag(config_, "strip_accents", v.lower_case);
    for (const char* name : {"[PAD]", "[CLS]", "[SEP]", "[MASK]"})
      if (const auto id = builder.find(kWordMark + std::string(name)))
        builder.add_extra(static_cast<std::uint64_t>(*id), name, true);
    return builder;
  }

  /// XLM-RoBERTa's SentencePiece model, whose pieces have other ids: four tokens come first, where
  /// the model has three, and <mask> comes last.
  VocabularyBuilder shifted_pieces() {
    const std::string file = path("sentencepiece.bpe.model");
    VocabularyBuilder own(options_.tokens, file), out(options_.tokens, file);
    read_pieces(file, own);
    const Vocabulary& from = own.vocabulary();
    if (options_.tokens < 5) throw Error(file, "too few tokens for an XLM-RoBERTa vocabulary");
    out.add(0, "<s>", TokenType::Control);
    out.add(1, "<pad>", TokenType::Control);
    out.add(2, "</s>", TokenType::Control);
    out.add(3, "<unk>", TokenType::Unknown);
    for (std::size_t id = 3; id + 2 < options_.tokens && own.has(id); ++id)
      out.add(id + 1, from.tokens[id], from.types[id], from.scores[id]);
    out.add(options_.tokens - 1, "<mask>", TokenType::Control);
    Vocabulary& to = out.vocabulary();
    to.model = from.model;
    to.pre = "default";
    to.precompiled_charsmap = from.precompiled_charsmap;
    to.add_space_prefix = from.add_space_prefix;
    to.remove_extra_whitespaces = from.remove_extra_whitespaces;
    to.bos = 0;
    to.eos = to.sep = 2;
    to.unk = 3;
    to.pad = 1;
    to.add_bos = to.add_eos = true;
    return out;
  }

  /// Few programs know the younger of two names of one expression, which differ in words that are
  /// tokens. The older one is right if merges make each of these tokens (gpt-oss).
  void prefer_known_name() {
    Vocabulary& v = vocabulary();
    if (v.pre != "granite-embed-multi-97m" || !options_.pre.empty()) return;
    Vocabulary merging = v;
    merging.pre = "gpt-4o";
    const auto whole = Tokenizer::create(v), merged = Tokenizer::create(merging);
    for (std::size_t id = 0; id < v.tokens.size(); ++id) {
      if (v.types[id] != TokenType::Normal) continue;
      const std::string text = whole->piece(static_cast<TokenId>(id));
      if (whole->encode(text, false, false) != merged->encode(text, false, false)) return;
    }
    v.pre = merging.pre;
  }

  /// Tokens that tokenizer.model lacks, and which tokens are special.
  void added_tokens() {
    const std::string name = "added_tokens.json";
    const SortedJson added = json(name);
    if (added.is_object()) {
      for (const auto& [text, id] : added.items()) {
        if (!id.is_number_unsigned())
          throw Error(path(name), "bad token id: expected a number", "token " + text);
        builder_->add_extra(id.get<std::uint64_t>(), text, false);
      }
    }
    const SortedJson& decoder = json_member(config_, "added_tokens_decoder");
    if (!decoder.is_object()) return;
    for (const auto& [id, token] : decoder.items()) {
      const bool digits =
          !id.empty() && id.size() < 10 &&
          std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
      const SortedJson& content = json_member(token, "content");
      if (!digits || !content.is_string())
        throw Error(path("tokenizer_config.json"),
                    "bad entry: expected {\"ID\": {\"content\": \"TEXT\"}}",
                    "key added_tokens_decoder");
      builder_->add_extra(std::stoull(id), content.get<std::string>(),
                          json_flag(token, "special", false));
    }
  }

  /// BOS, EOS and others by their texts in the tokenizer's files, else by their ids in
  /// generation_config.json and config.json.
  void special_tokens() {
    Vocabulary& v = vocabulary();
    const auto set = [&](std::optional<TokenId>& token, const char* key,
                         const std::vector<std::uint32_t>& otherwise) {
      if (const auto id = named_token(key))
        token = id;
      else if (const auto known = first_known(otherwise))
        token = known;
    };
    std::vector<std::uint32_t> bos = ids("bos_token_id"), eos = ids("eos_token_id");
    if (bos.empty() && options_.bos) bos = {*options_.bos};
    if (eos.empty()) eos = options_.eos;
    set(v.bos, "bos_token", bos);
    set(v.eos, "eos_token", eos);
    set(v.unk, "unk_token", {});
    set(v.pad, "pad_token", {});
    set(v.sep, "sep_token", {});
    if (v.model == "bert") {
      set(v.bos, "cls_token", {});
      if (!v.bos) v.bos = builder_->find("[CLS]");
      if (!v.sep) v.sep = builder_->find("[SEP]");
      if (v.sep) v.eos = v.sep;
    }
    for (const auto& token : {v.bos, v.eos})
      if (token) builder_->mark_control(*token);
    more_ends(eos);
  }

  /// generation_config.json may name several tokens that end an answer.
  void more_ends(const std::vector<std::uint32_t>& ends) {
    Vocabulary& v = vocabulary();
    std::vector<TokenId> others;
    for (const std::uint32_t id : ends) {
      if (builder_->has(id) && static_cast<TokenId>(id) != v.eos)
        others.push_back(static_cast<TokenId>(id));
    }
    const auto text = [&](TokenId id) { return v.tokens[static_cast<std::size_t>(id)]; };
    const auto take = [&](std::optional<TokenId>& token, auto&& fits) {
      const auto found = std::find_if(others.begin(), others.end(), fits);
      if (found == others.end()) return;
      builder_->mark_control(*found);
      token = *found;
      others.erase(found);
    };
    take(v.eom, [&](TokenId id) { return text(id) == kEndOfMessage; });
    take(v.eot, [&](TokenId id) {
      return std::find(std::begin(kEndsOfTurn), std::end(kEndsOfTurn), text(id)) !=
             std::end(kEndsOfTurn);
    });
    if (!v.eot) take(v.eot, [](TokenId) { return true; });
    if (!v.eom) take(v.eom, [](TokenId) { return true; });
    for (const TokenId id : others)
      builder_->mark_control(id);  // other readers know them by their texts
  }

  void flags() {
    Vocabulary& v = vocabulary();
    const auto set = [&](bool& flag, const char* key) { flag = json_flag(config_, key, flag); };
    set(v.add_bos, "add_bos_token");
    set(v.add_eos, "add_eos_token");
    if (v.model == "llama") set(v.add_space_prefix, "add_prefix_space");
    v.add_bos = v.add_bos && v.bos;
    v.add_eos = v.add_eos && v.eos;
  }

  std::string template_file(const std::string& file) const {
    const Mapping bytes(file, MapMode::Mmap, "a chat template");
    if (bytes.bytes().size() > kTemplateBytes) throw Error(file, "too large for a chat template");
    std::string text(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
    if (!is_utf8(text)) throw Error(file, "is not UTF-8");
    return text;
  }

  /// The files of additional_chat_templates/, which come before templates of the same names
  /// elsewhere.
  void additional_templates(NamedTemplates& named) const {
    const fs::path folder = path("additional_chat_templates");
    std::error_code error;
    if (!fs::is_directory(folder, error)) return;
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".jinja")
        files[entry.path().stem().string()] = entry.path().string();
    for (const auto& [name, file] : files) {
      if (!is_utf8(name)) throw Error(file, "the name of a chat template is not UTF-8");
      std::erase_if(named, [&taken = name](const auto& other) { return other.first == taken; });
      named.emplace_back(name, template_file(file));
    }
  }

  /// A separate file comes first; else a text or a list of named texts in tokenizer_config.json.
  void chat_templates(NamedTemplates& named) {
    std::string& standard = vocabulary().chat_template;
    const SortedJson& inside = json_member(config_, "chat_template");
    if (inside.is_string()) standard = inside.get<std::string>();
    if (inside.is_array()) {
      for (const SortedJson& each : inside) {
        const SortedJson &name = json_member(each, "name"), &text = json_member(each, "template");
        if (!name.is_string() || !text.is_string())
          throw Error(path("tokenizer_config.json"),
                      "bad chat template: expected {\"name\", \"template\"}", "key chat_template");
        if (name == "default")
          standard = text.get<std::string>();
        else
          named.emplace_back(name.get<std::string>(), text.get<std::string>());
      }
    }
    const SortedJson file = json("chat_template.json");
    standard = json_text(file, "chat_template").value_or(standard);
    if (const std::string own = path("chat_template.jinja"); fs::exists(own))
      standard = template_file(own);
    additional_templates(named);
  }

  /// "bos_token": a text, or an object with its "content".
  [[nodiscard]] std::optional<TokenId> named_token(const char* key) {
    std::string unknown;
    for (const SortedJson* from : {&config_, &map_}) {
      const SortedJson& value = json_member(*from, key);
      const SortedJson& text = value.is_object() ? json_member(value, "content") : value;
      if (!text.is_string()) continue;
      unknown = text.get<std::string>();
      if (const auto id = builder_->find(unknown)) return id;
    }
    if (!unknown.empty())
      vocabulary().warnings.push_back(std::string(key) + " is " + unknown +
                                      ", which is not a token");
    return std::nullopt;
  }

  [[nodiscard]] std::vector<std::uint32_t> ids(const char* key) const {
    const SortedJson& value = json_member(generation_, key);
    std::vector<std::uint32_t> out;
    for (const SortedJson& id : value.is_array() ? value : SortedJson::array({value})) {
      if (id.is_number_unsigned() && id.get<std::uint64_t>() < limits::kVocabulary)
        out.push_back(id.get<std::uint32_t>());
    }
    return out;
  }

  [[nodiscard]] std::optional<TokenId> first_known(const std::vector<std::uint32_t>& list) const {
    const auto found =
        std::find_if(list.begin(), list.end(), [&](std::uint32_t id) { return builder_->has(id); });
    return found == list.end() ? std::nullopt : std::optional(static_cast<TokenId>(*found));
  }

  Vocabulary& vocabulary() { return builder_->vocabulary(); }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (fs::path(directory_) / name).string();
  }
  /// A file's JSON; null if the file is missing.
  [[nodiscard]] SortedJson json(const std::string& name) const {
    return fs::exists(path(name)) ? read_json(path(name), kTokenizerLimits) : SortedJson();
  }
  const std::string& directory_;
  const HfVocabularyOptions& options_;
  SortedJson config_, map_, generation_;
  VocabularyBuilder* builder_ = nullptr;
};

// Score of added tokens: the last to merge, as in other converters.
constexpr float kExtraScore = -1000;

}  // namespace

HfVocabulary read_hf_vocabulary(const std::string& directory, const HfVocabularyOptions& options) {
  return HfVocabularyReader(directory, options).read();
}

void set_vocabulary(GgufWriter& writer, const HfVocabulary& from) {
  const Vocabulary& v = from.vocabulary();
  const auto set = [&](const char* key, GgufData value) {
    writer.set("tokenizer.ggml." + std::string(key), std::move(value));
  };
  const auto set_token = [&](const char* key, std::optional<TokenId> id) {
    if (id) set(key, static_cast<std::uint32_t>(*id));
  };
  set("model", v.model);
  set("pre", v.pre);
  set("tokens", GgufArray::of(std::vector<std::string>(v.tokens.begin(), v.tokens.end())));
  if (!v.scores.empty()) set("scores", GgufArray::of(v.scores));
  std::vector<std::int32_t> types;
  for (const TokenType type : v.types) types.push_back(static_cast<std::int32_t>(type));
  set("token_type", GgufArray::of(types));
  if (!v.merges.empty())
    set("merges", GgufArray::of(std::vector<std::string>(v.merges.begin(), v.merges.end())));
  set_token("bos_token_id", v.bos);
  set_token("eos_token_id", v.eos);
  set_token("eot_token_id", v.eot);
  set_token("eom_token_id", v.eom);
  set_token("unknown_token_id", v.unk);
  set_token("padding_token_id", v.pad);
  set_token("seperator_token_id", v.sep);
  set("add_bos_token", v.add_bos);
  set("add_eos_token", v.add_eos);
  set("add_space_prefix", v.add_space_prefix);
  if (v.remove_extra_whitespaces) set("remove_extra_whitespaces", true);
  if (v.model == "bert") {
    set("normalizer.lowercase", v.lower_case);
    set("normalizer.strip_accents", v.strip_accents);
  }
  if (!v.precompiled_charsmap.empty())
    set("precompiled_charsmap", GgufArray::of(std::vector<std::uint8_t>(
                                    v.precompiled_charsmap.begin(), v.precompiled_charsmap.end())));
  if (!v.chat_template.empty()) writer.set("tokenizer.chat_template", v.chat_template);
  std::vector<std::string> names;
  for (const auto& [name, text] : from.templates) {
    writer.set("tokenizer.chat_template." + name, text);
    names.push_back(name);
  }
  if (!names.empty()) writer.set("tokenizer.chat_templates", GgufArray::of(names));
}

VocabularyBuilder::VocabularyBuilder(std::size_t tokens, std::string file)
    : file_(std::move(file)), used_(tokens) {
  vocabulary_.tokens.resize(tokens);
  vocabulary_.types.resize(tokens, TokenType::Unused);
  vocabulary_.scores.resize(tokens, kExtraScore);
}

void VocabularyBuilder::set(std::uint64_t id, std::string_view text, TokenType type, float score) {
  if (text.size() > limits::kTokenBytes)
    throw Error(file_,
                "the token is too long: expected up to " + std::to_string(limits::kTokenBytes) +
                    " bytes, got " + std::to_string(text.size()),
                "token " + std::to_string(id));
  if (const auto old = ids_.find(vocabulary_.tokens[id]);
      old != ids_.end() && old->second == static_cast<TokenId>(id))
    ids_.erase(old);
  vocabulary_.tokens[id] = texts_.emplace_back(text);
  vocabulary_.types[id] = type;
  vocabulary_.scores[id] = score;
  used_[id] = true;
  ids_.insert_or_assign(vocabulary_.tokens[id], static_cast<TokenId>(id));
}

void VocabularyBuilder::add(std::uint64_t id, std::string_view text, TokenType type, float score) {
  if (id >= used_.size()) {
    ++ignored_;
    return;
  }
  if (used_[id])
    throw Error(file_,
                "two tokens with the same id: " + std::string(vocabulary_.tokens[id]) + " and " +
                    std::string(text),
                "token " + std::to_string(id));
  set(id, text, type, score);
}

void VocabularyBuilder::add_extra(std::uint64_t id, std::string_view text, bool special) {
  if (id >= used_.size()) {
    ++ignored_;
    return;
  }
  const TokenType type = special ? TokenType::Control : TokenType::UserDefined;
  if (!used_[id] || vocabulary_.tokens[id] != text) return set(id, text, type, kExtraScore);
  if (vocabulary_.types[id] == TokenType::Normal) vocabulary_.types[id] = type;
  if (special && vocabulary_.types[id] == TokenType::UserDefined) vocabulary_.types[id] = type;
}

void VocabularyBuilder::mark_control(TokenId id) {
  TokenType& type = vocabulary_.types[static_cast<std::size_t>(id)];
  if (type == TokenType::Normal || type == TokenType::UserDefined) type = TokenType::Control;
}

std::optional<TokenId> VocabularyBuilder::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void VocabularyBuilder::fill_holes() {
  if (ignored_ > 0)
    vocabulary_.warnings.push_back("ignored: " + counted(ignored_, "token") +
                                   "; the model has only " + std::to_string(used_.size()) +
                                   " embeddings");
  for (std::size_t id = 0; id < used_.size(); ++id) {
    if (!used_[id]) set(id, "[PAD" + std::to_string(id) + "]", TokenType::Unused, kExtraScore);
  }
}

}  // namespace cria
