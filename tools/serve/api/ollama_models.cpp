// The model as Ollama's clients see it.
#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "engine/model_parts.h"
#include "model/file/utf8.h"
#include "tools/serve/api/ollama.h"

namespace cria::serve {
namespace {

std::uint64_t parameter_count(const Model& model) {
  std::uint64_t values = 0;
  for (const TensorView& tensor : model.file().tensors()) values += tensor.cols() * tensor.rows();
  return values;
}

/// "7.3M"
std::string short_count(std::uint64_t n) {
  const double value = static_cast<double>(n);
  const bool billions = value >= 1e9;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%c", value / (billions ? 1e9 : 1e6), billions ? 'B' : 'M');
  return text;
}

/// Returns the type of most values.
std::string main_type(const Model& model) {
  std::map<DType, std::uint64_t> values;
  for (const TensorView& tensor : model.file().tensors())
    values[tensor.dtype] += tensor.cols() * tensor.rows();
  const auto most =
      std::ranges::max_element(values, {}, [](const auto& one) { return one.second; });
  return most == values.end() ? "" : std::string(dtype_info(most->first).name);
}

/// 64 hexadecimal digits that depend on the weights only.
std::string digest(const Model& model) {
  std::string text;
  for (std::uint64_t part = 0; part < 4; ++part) {
    Hash hash;
    hash.add_number(weights_fingerprint(model));
    hash.add_number(part);
    char digits[24];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash.value()));
    text += digits;
  }
  return text;
}

std::string modified_at(const Model& model) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(model.path(), error);
  const auto system = std::filesystem::file_time_type::clock::to_sys(time);
  return ollama_time(
      error ? 0
            : std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count());
}

std::string architecture(const Model& model) {
  return std::string(model.file().find_string("general.architecture").value_or(""));
}

RequestJson details(const Model& model) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", architecture(model)},
          {"families", RequestJson::array({architecture(model)})},
          {"parameter_size", short_count(parameter_count(model))},
          {"quantization_level", main_type(model)}};
}

RequestJson entry(const ServedModel& served) {
  const Model& model = *served.model;
  return {{"name", served.id},
          {"model", served.id},
          {"modified_at", modified_at(model)},
          {"size", model.file().file_bytes()},
          {"digest", digest(model)},
          {"details", details(model)}};
}

template <class T>
T number_at(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

RequestJson value_json(const GgufFile& file, const GgufValue& value, bool arrays) {
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
  RequestJson all = RequestJson::array();
  for (const GgufValue& one : file.elements(value)) all.push_back(value_json(file, one, arrays));
  return all;
}

RequestJson capabilities(const ServedModel& served) {
  const ChatTemplate& chat = *served.chat_template;
  RequestJson all = RequestJson::array({"completion", "embedding"});
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

RequestJson ollama_tags(const ServedModel& model) {
  return {{"models", RequestJson::array({entry(model)})}};
}

// A model that is never unloaded expires far in the future.
RequestJson ollama_loaded(const ServedModel& model, std::size_t n_ctx) {
  RequestJson one = entry(model);
  one.update({{"expires_at", "2318-01-01T00:00:00Z"}, {"size_vram", 0}, {"context_length", n_ctx}});
  return {{"models", RequestJson::array({std::move(one)})}};
}

RequestJson ollama_show(const ServedModel& served, bool verbose) {
  const Model& model = *served.model;
  RequestJson info = RequestJson::object();
  for (const GgufKey& key : model.file().keys())
    info[std::string(key.key)] = value_json(model.file(), key.value, verbose);
  info["general.parameter_count"] = parameter_count(model);
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", served.chat_template->source()},
          {"details", details(model)},
          {"model_info", std::move(info)},
          {"capabilities", capabilities(served)},
          {"modified_at", modified_at(model)}};
}

}  // namespace cria::serve
