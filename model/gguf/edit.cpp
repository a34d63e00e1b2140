#include "model/gguf/edit.h"

#include <algorithm>
#include <set>

#include "model/file/utf8.h"
#include "model/limits.h"

namespace cria {
namespace {

std::string at_key(std::string_view key) { return "key " + std::string(key); }

bool is_layout(std::string_view key) {
  return key == "general.alignment" || key.starts_with("split.");
}

void check_key(const std::string& key) {
  if (key.empty()) throw Error("", "empty key");
  if (key.size() > limits::kKeyBytes)
    throw Error("", "key too long: expected at most " + std::to_string(limits::kKeyBytes) +
                        " bytes, got " + std::to_string(key.size()));
  if (key.find('\0') != std::string::npos) throw Error("", "NUL byte in a key", at_key(key));
  if (!is_utf8(key)) throw Error("", "key is not UTF-8", at_key(key));
  if (is_layout(key))
    throw Error("", "cannot be changed: it says how the file is laid out", at_key(key));
}

/// What the reader would refuse, or what is no text.
void check_value(const GgufData& value, const std::string& key, int depth = 0) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (text->size() > limits::kStringBytes)
      throw Error("",
                  "string too long: expected at most " + std::to_string(limits::kStringBytes) +
                      " bytes, got " + std::to_string(text->size()),
                  at_key(key));
    if (!is_utf8(*text)) throw Error("", "string is not UTF-8", at_key(key));
  }
  const auto* array = std::get_if<GgufArray>(&value);
  if (array == nullptr) return;
  if (depth >= limits::kArrayDepth)
    throw Error("",
                "arrays nested too deep: expected at most " + std::to_string(limits::kArrayDepth) +
                    " levels",
                at_key(key));
  if (array->values.size() > limits::kArrayElements)
    throw Error("",
                "array too long: expected at most " + std::to_string(limits::kArrayElements) +
                    " elements, got " + std::to_string(array->values.size()),
                at_key(key));
  for (const GgufData& element : array->values) check_value(element, key, depth + 1);
}

void check(const GgufFile& file, const GgufEdit& edit) {
  std::set<std::string_view> seen;
  std::size_t keys = file.keys().size();
  const auto check_once = [&](const std::string& key) {
    check_key(key);
    if (!seen.insert(key).second) throw Error("", "named twice", at_key(key));
  };
  for (const auto& [key, value] : edit.set) {
    check_once(key);
    check_value(value, key);
    if (file.find(key) == nullptr) ++keys;
  }
  for (const std::string& key : edit.remove) {
    check_once(key);
    if (file.find(key) == nullptr) throw file.error("cannot remove: no such key", at_key(key));
  }
  if (keys > limits::kKeys)
    throw file.error("too many keys: expected at most " + std::to_string(limits::kKeys) + ", got " +
                     std::to_string(keys));
}

}  // namespace

bool write_edited(const GgufFile& file, const std::string& path, const GgufEdit& edit,
                  const OnBytes& on_bytes) {
  check(file, edit);
  require_other_file(file, path);
  GgufWriter writer(path, file.alignment());
  const bool whole = file.shard_count() == 1;
  for (const GgufKey& key : file.keys()) {
    const bool removed = std::ranges::find(edit.remove, key.key) != edit.remove.end();
    if (!removed && (whole || !key.key.starts_with("split.")))
      writer.set(key.key, copy_value(file, key.value));
  }
  for (const auto& [key, value] : edit.set) writer.set(key, value);
  for (const TensorView& tensor : file.tensors())
    writer.declare(tensor.name, tensor.dtype, tensor.shape);
  writer.begin();
  TensorCopy copy(file, on_bytes);
  for (const TensorView& tensor : file.tensors()) {
    if (!copy.tensor(tensor, writer)) return false;
  }
  writer.finish();
  return true;
}

}  // namespace cria
