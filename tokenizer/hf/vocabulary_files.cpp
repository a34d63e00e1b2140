// Writes the tokenizer files of a directory.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tokenizer/hf/formats.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria {
namespace {

template <typename AnyJson>
std::string dump(const AnyJson& json, int indent = 2) {
  return json.dump(indent, ' ', false, AnyJson::error_handler_t::replace) + "\n";
}

/// "bos_token" and the like, as texts.
Json special_tokens(const Vocabulary& v) {
  Json json = Json::object();
  const auto put = [&](const char* key, std::optional<TokenId> id) {
    if (id) json[key] = v.tokens[static_cast<std::size_t>(*id)];
  };
  put("bos_token", v.bos);
  put("eos_token", v.eos);
  put("unk_token", v.unk);
  put("pad_token", v.pad);
  return json;
}

Json tokenizer_config(const Vocabulary& v, const NamedTemplates& templates) {
  const bool pieces = v.model == "llama";
  Json json = {{"tokenizer_class", pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast"},
               {"add_bos_token", v.add_bos},
               {"add_eos_token", v.add_eos},
               {"clean_up_tokenization_spaces", false}};
  if (pieces) {
    json["legacy"] = true;
    json["add_prefix_space"] = v.add_space_prefix;
  }
  json.update(special_tokens(v));
  SortedJson decoder = SortedJson::object();
  for (std::size_t id = 0; id < v.tokens.size(); ++id)
    if (is_added(v.types[id])) decoder[std::to_string(id)] = added_token(v, id);
  json["added_tokens_decoder"] = decoder;
  if (templates.empty()) {
    if (!v.chat_template.empty()) json["chat_template"] = v.chat_template;
    return json;
  }
  Json list = Json::array();
  if (!v.chat_template.empty())
    list.push_back({{"name", "default"}, {"template", v.chat_template}});
  for (const auto& [name, text] : templates) list.push_back({{"name", name}, {"template", text}});
  json["chat_template"] = std::move(list);
  return json;
}

/// EOS first, then the other end tokens.
Json generation_config(const Vocabulary& v) {
  Json json = Json::object(), ends = Json::array();
  if (v.bos) json["bos_token_id"] = *v.bos;
  for (const auto& id : {v.eos, v.eot, v.eom}) {
    if (id && std::find(ends.begin(), ends.end(), Json(*id)) == ends.end()) ends.push_back(*id);
  }
  if (!ends.empty()) json["eos_token_id"] = ends.size() == 1 ? ends.front() : ends;
  if (v.pad) json["pad_token_id"] = *v.pad;
  return json;
}

}  // namespace

NamedTemplates named_templates(const GgufFile& file) {
  NamedTemplates out;
  for (const std::string_view name :
       file.find_strings("tokenizer.chat_templates").value_or(std::vector<std::string_view>())) {
    if (const auto text = file.find_string("tokenizer.chat_template." + std::string(name)))
      out.emplace_back(name, *text);
  }
  return out;
}

std::vector<TextFile> hf_vocabulary_files(const Vocabulary& v, const NamedTemplates& templates) {
  std::vector<TextFile> files;
  if (v.model == "llama")
    files.push_back({"tokenizer.model", sentencepiece_model(v)});
  else if (v.model == "gpt2")
    files.push_back({"tokenizer.json", dump(tokenizer_json(v), 1)});
  else
    throw Error("", "cannot export this kind of vocabulary: expected llama or gpt2, got " + v.model,
                "key tokenizer.ggml.model");
  files.push_back({"tokenizer_config.json", dump(tokenizer_config(v, templates))});
  files.push_back({"special_tokens_map.json", dump(special_tokens(v))});
  files.push_back({"generation_config.json", dump(generation_config(v))});
  return files;
}

}  // namespace cria
