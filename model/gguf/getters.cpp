// Typed access to metadata. Errors name the key, the type that was wanted and the one that is
// there.
#include <algorithm>

#include "model/gguf/parser.h"
#include "model/limits.h"

namespace cria {
namespace {

std::string where(std::string_view key) { return "key " + std::string(key); }

std::string type_name(const GgufValue& value) {
  if (value.type != GgufType::Array) return std::string(name(value.type));
  return "array of " + std::string(name(value.element));
}

Error wrong_type(const GgufFile& file, std::string_view key, std::string_view wanted,
                 const GgufValue& value) {
  return file.error(
      "wrong type of a key: expected " + std::string(wanted) + ", got " + type_name(value),
      where(key));
}

Error missing(const GgufFile& file, std::string_view key) {
  return file.error("missing key", where(key));
}

template <typename T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

std::optional<double> as_float(const GgufValue& value) {
  if (value.type == GgufType::F32) return load<float>(value.data);
  if (value.type == GgufType::F64) return load<double>(value.data);
  return std::nullopt;
}

std::optional<std::int64_t> as_int(const GgufValue& value) {
  if (value.type == GgufType::I8) return load<std::int8_t>(value.data);
  if (value.type == GgufType::I16) return load<std::int16_t>(value.data);
  if (value.type == GgufType::I32) return load<std::int32_t>(value.data);
  if (value.type == GgufType::I64) return load<std::int64_t>(value.data);
  const auto number = as_uint(value);
  if (!number || *number > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

bool is_integer(GgufType type) {
  return scalar_bytes(type) != 0 && type != GgufType::F32 && type != GgufType::F64 &&
         type != GgufType::Bool;
}

std::string_view text(const GgufValue& value) {
  return {reinterpret_cast<const char*>(value.data), value.bytes};
}

/// The array under key whose scalar elements pass accept; null if the key is absent.
const GgufValue* find_array(const GgufFile& file, std::string_view key, std::string_view wanted,
                            bool (*accept)(GgufType)) {
  const GgufValue* const value = file.find(key);
  if (value != nullptr && (value->type != GgufType::Array || !accept(value->element))) {
    throw wrong_type(file, key, wanted, *value);
  }
  return value;
}

}  // namespace

void GgufFile::visit_elements(const GgufValue& array,
                              const std::function<void(const GgufValue&)>& visit,
                              std::uint64_t most) const {
  // The array was checked when the file was opened, so the cursor cannot run out.
  Cursor cursor({array.data, array.bytes}, path());
  for (std::uint64_t i = 0; i < std::min(array.count, most); ++i)
    visit(read_payload(cursor, version(), path(), array.element));
}

std::vector<GgufValue> GgufFile::elements(const GgufValue& array) const {
  std::vector<GgufValue> out;
  out.reserve(array.count);
  visit_elements(array, [&](const GgufValue& element) { out.push_back(element); });
  return out;
}

std::optional<std::uint64_t> GgufFile::find_uint(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_uint(*value);
  if (!number && is_integer(value->type)) {
    throw error("negative number: expected 0 or more, got " + std::to_string(*as_int(*value)),
                where(key));
  }
  if (!number) throw wrong_type(*this, key, "an integer", *value);
  return number;
}

std::optional<double> GgufFile::find_float(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_float(*value);
  if (!number) throw wrong_type(*this, key, "f32 or f64", *value);
  return number;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::Bool) throw wrong_type(*this, key, "bool", *value);
  return *value->data != std::byte{0};
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::String) throw wrong_type(*this, key, "string", *value);
  return text(*value);
}

std::optional<std::vector<std::string_view>> GgufFile::find_strings(std::string_view key) const {
  const GgufValue* const array = find_array(*this, key, "array of string",
                                            [](GgufType type) { return type == GgufType::String; });
  if (array == nullptr) return std::nullopt;
  Cursor cursor({array->data, array->bytes}, path());
  std::vector<std::string_view> out(array->count);
  for (std::string_view& string : out) {
    string = read_string(cursor, version(), limits::kStringBytes, path(), "a string");
  }
  return out;
}

std::optional<std::vector<float>> GgufFile::find_floats(std::string_view key) const {
  const GgufValue* const array = find_array(*this, key, "array of f32 or f64", [](GgufType type) {
    return type == GgufType::F32 || type == GgufType::F64;
  });
  if (array == nullptr) return std::nullopt;
  std::vector<float> out(array->count);
  const std::size_t size = scalar_bytes(array->element);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<float>(*as_float({.type = array->element, .data = array->data + i * size}));
  }
  return out;
}

std::optional<std::vector<std::int64_t>> GgufFile::find_ints(std::string_view key) const {
  const GgufValue* const array = find_array(*this, key, "array of integers", is_integer);
  if (array == nullptr) return std::nullopt;
  std::vector<std::int64_t> out(array->count);
  const std::size_t size = scalar_bytes(array->element);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto number = as_int({.type = array->element, .data = array->data + i * size});
    if (!number) throw error("number too large at index " + std::to_string(i), where(key));
    out[i] = *number;
  }
  return out;
}

std::optional<std::vector<bool>> GgufFile::find_bools(std::string_view key) const {
  const GgufValue* const array =
      find_array(*this, key, "array of bool", [](GgufType type) { return type == GgufType::Bool; });
  if (array == nullptr) return std::nullopt;
  std::vector<bool> out(array->count);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = array->data[i] != std::byte{0};
  return out;
}

std::uint64_t GgufFile::get_uint(std::string_view key) const {
  const auto value = find_uint(key);
  if (!value) throw missing(*this, key);
  return *value;
}

double GgufFile::get_float(std::string_view key) const {
  const auto value = find_float(key);
  if (!value) throw missing(*this, key);
  return *value;
}

std::string_view GgufFile::get_string(std::string_view key) const {
  const auto value = find_string(key);
  if (!value) throw missing(*this, key);
  return *value;
}

}  // namespace cria
