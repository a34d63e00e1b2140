#include "tools/report/file_parts.h"

#include <nlohmann/json.hpp>

#include "tools/report/metadata_json.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

std::string type_text(const GgufValue& value) {
  if (value.type != GgufType::Array) return std::string(name(value.type));
  return std::string(name(value.element)) + "[" + std::to_string(value.count) + "]";
}

/// On one line, cut short: at most 8 elements and 72 bytes.
std::string value_text(const GgufFile& file, const GgufValue& value) {
  constexpr std::size_t kElements = 8, kBytes = 72;
  std::string text = metadata_json(file, value, kElements)
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  bool cut = value.type == GgufType::Array && value.count > kElements;
  if (cut) text.pop_back();  // the closing bracket
  if (text.size() > kBytes) {
    std::size_t end = kBytes;
    while ((text[end] & 0xC0) == 0x80) --end;
    text.resize(end);
    cut = true;
  }
  return cut ? text + " …" : text;
}

}  // namespace

std::string keys_text(const GgufFile& file) {
  Table table({"key", "type", "value"});
  for (const GgufKey& key : file.keys())
    table.add({without_controls(key.key), type_text(key.value), value_text(file, key.value)});
  return table.text(stdout);
}

std::string tensors_text(const GgufFile& file) {
  Table table({"tensor", "type", ">shape", ">bytes"});
  for (const TensorView& tensor : file.tensors())
    table.add({without_controls(tensor.name), std::string(name(tensor.dtype)),
               tensor.shape_string(), std::to_string(tensor.bytes)});
  return table.text(stdout);
}

nlohmann::ordered_json tensors_json(const GgufFile& file) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorView& tensor : file.tensors())
    tensors.push_back({{"name", tensor.name},
                       {"type", name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes},
                       {"shard", tensor.shard}});
  return tensors;
}

std::string template_text(const GgufFile& file) {
  const GgufValue* value = file.find("tokenizer.chat_template");
  if (value == nullptr || value->type != GgufType::String)
    throw file.error("holds no chat template (key tokenizer.chat_template)");
  return metadata_json(file, *value).get<std::string>();
}

}  // namespace cria::tools
