#include "tools/report/tokenizer_report.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "model/plural.h"
#include "model/vocabulary.h"
#include "tools/report/table.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

/// A role of a token ("bos", "end of generation") and the token.
using TokenUses = std::vector<std::pair<std::string, TokenId>>;

TokenUses token_uses(const Vocabulary& v) {
  TokenUses uses;
  const auto add = [&](const char* use, std::optional<TokenId> id) {
    if (id) uses.emplace_back(use, *id);
  };
  add("bos", v.bos);
  add("eos", v.eos);
  add("eot", v.eot);
  add("eom", v.eom);
  add("unknown", v.unk);
  add("separator", v.sep);
  add("padding", v.pad);
  for (const TokenId id : v.end_of_generation) add("end of generation", id);
  return uses;
}

/// What the vocabulary says; nothing if the file has none that can be read.
std::optional<Vocabulary> find_vocabulary(const GgufFile& file) {
  if (file.find("tokenizer.ggml.tokens") == nullptr) return std::nullopt;
  try {
    return Vocabulary::from_gguf(file);
  } catch (const Error& error) {
    print_warning(error.what());
    return std::nullopt;
  }
}

}  // namespace

std::string tokenizer_text(const GgufFile& file) {
  const auto v = find_vocabulary(file);
  if (!v) return "no vocabulary\n";
  std::string text = "tokenizer " + without_controls(v->model) +
                     (v->pre.empty() ? "" : ", pre-tokenizer " + without_controls(v->pre)) + ", " +
                     counted(v->tokens.size(), "token") +
                     (v->merges.empty() ? "" : ", " + counted(v->merges.size(), "merge")) +
                     (v->add_bos ? ", BOS added" : "") + (v->add_eos ? ", EOS added" : "") + "\n";
  Table table({"use", ">id", "token"});
  for (const auto& [use, id] : token_uses(*v))
    table.add({use, std::to_string(id),
               without_controls(std::string(v->tokens[static_cast<std::size_t>(id)]))});
  return text + table.text(stdout);
}

nlohmann::ordered_json tokenizer_json(const GgufFile& file) {
  const auto v = find_vocabulary(file);
  if (!v) return nullptr;
  nlohmann::ordered_json uses = nlohmann::ordered_json::object();
  for (const auto& [use, id] : token_uses(*v))
    if (use != "end of generation") uses[use] = id;
  return {{"model", v->model},
          {"pre", v->pre},
          {"tokens", v->tokens.size()},
          {"merges", v->merges.size()},
          {"add_bos", v->add_bos},
          {"add_eos", v->add_eos},
          {"special", uses},
          {"end_of_generation", v->end_of_generation}};
}

}  // namespace cria::tools
