// The model as Ollama's clients see it.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "engine/model_parts.h"
#include "model/file/utf8.h"
#include "tools/serve/api/protocols.h"

namespace cria::serve {
namespace {

/// "7.3M"
std::string short_count(std::uint64_t n) {
  const double value = static_cast<double>(n);
  const bool billions = value >= 1e9;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%c", value / (billions ? 1e9 : 1e6), billions ? 'B' : 'M');
  return text;
}

Json details(const ModelCard& card) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", card.architecture},
          {"families", Json::array({card.architecture})},
          {"parameter_size", short_count(card.n_params)},
          {"quantization_level", card.main_type}};
}

/// Files that cannot be read have no details.
Json entry_json(const ModelPool::Entry& entry) {
  const ModelCard card = entry.card.value_or(ModelCard{});
  return {{"name", entry.id},
          {"model", entry.id},
          {"modified_at", ollama_time(card.modified)},
          {"size", card.file_bytes},
          {"digest", card.digest},
          {"details", details(card)}};
}

template <class T>
T number_at(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

Json value_json(const GgufFile& file, const GgufValue& value, bool arrays) {
  switch (value.type) {
    case GgufType::U8:
      return number_at<std::uint8_t>(value.data);
    case GgufType::I8:
      return number_at<std::int8_t>(value.data);
    case GgufType::U16:
      return number_at<std::uint16_t>(value.data);
    case GgufType::I16:
      return number_at<std::int16_t>(value.data);
    case GgufType::U32:
      return number_at<std::uint32_t>(value.data);
    case GgufType::I32:
      return number_at<std::int32_t>(value.data);
    case GgufType::F32:
      return number_at<float>(value.data);
    case GgufType::Bool:
      return number_at<std::uint8_t>(value.data) != 0;
    case GgufType::U64:
      return number_at<std::uint64_t>(value.data);
    case GgufType::I64:
      return number_at<std::int64_t>(value.data);
    case GgufType::F64:
      return number_at<double>(value.data);
    case GgufType::String:
      return std::string(reinterpret_cast<const char*>(value.data), value.count);
    case GgufType::Array:
      break;
  }
  if (!arrays) return nullptr;
  Json all = Json::array();
  for (const GgufValue& one : file.elements(value)) all.push_back(value_json(file, one, arrays));
  return all;
}

Json capabilities(const ServedModel& served) {
  const ChatTemplate& chat = *served.chat_template;
  if (served.card.output == "rerank") return Json::array();
  if (served.card.output == "embeddings") return Json::array({"embedding"});
  Json all = Json::array({"completion", "embedding"});
  const std::string tools = R"({"tools":[{}]})";
  if (served.calls.value_or(chat.answer_format(tools).calls) != CallForm::None)
    all.push_back("tools");
  if (chat.answer_format().thinks()) all.push_back("thinking");
  if (served.model->vocabulary().fim.complete()) all.push_back("insert");
  return all;
}

}  // namespace

std::string ollama_time(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text;
}

Json ollama_tags(ModelPool& pool) {
  Json all = Json::array();
  for (std::size_t i = 0; i < pool.size(); ++i) all.push_back(entry_json(pool.entry(i)));
  return {{"models", std::move(all)}};
}

// A model that is never unloaded expires far in the future.
Json ollama_loaded(ModelPool& pool) {
  Json all = Json::array();
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const ModelPool::Entry entry = pool.entry(i);
    if (entry.status != "loaded") continue;
    Json json = entry_json(entry);
    json["expires_at"] = entry.expires
                             ? ollama_time(std::chrono::system_clock::to_time_t(*entry.expires))
                             : "2318-01-01T00:00:00Z";
    json["size_vram"] = 0;
    json["context_length"] = entry.card ? entry.card->n_ctx : 0;
    all.push_back(std::move(json));
  }
  return {{"models", std::move(all)}};
}

Json ollama_show(const ServedModel& served, bool verbose) {
  const Model& model = *served.model;
  Json info = Json::object();
  for (const GgufKey& key : model.file().keys())
    info[std::string(key.key)] = value_json(model.file(), key.value, verbose);
  info["general.parameter_count"] = served.card.n_params;
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", served.chat_template->source()},
          {"details", details(served.card)},
          {"model_info", std::move(info)},
          {"capabilities", capabilities(served)},
          {"modified_at", ollama_time(served.card.modified)}};
}

}  // namespace cria::serve
