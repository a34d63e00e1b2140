#include "model/safetensors/header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/limits.h"
#include "model/plural.h"

namespace cria {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDimensions = 8;
constexpr std::string_view kMetadata = "__metadata__";

constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F64", 8, DType::F64},   {"F32", 4, DType::F32}, {"F16", 2, DType::F16},
    {"BF16", 2, DType::BF16}, {"I64", 8, DType::I64}, {"I32", 4, DType::I32},
    {"I16", 2, DType::I16},   {"I8", 1, DType::I8},   {"U64", 8, {}},
    {"U32", 4, {}},           {"U16", 2, {}},         {"U8", 1, {}},
    {"BOOL", 1, {}},          {"F8_E4M3", 1, {}},     {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
};

std::string known_types() {
  std::string names;
  for (const SafetensorsType& type : kSafetensorsTypes)
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

/// The parser's events. Depth is at most three, and what stands in no place of the format ends the
/// parse.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(const std::string& file, SafetensorsHeader& out) : file_(file), out_(out) {}

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::Start) return go(Place::Names);
    if (place_ == Place::Names && has_name_)
      return go(name_ == kMetadata ? Place::Metadata : Place::Fields);
    return unexpected("an object");
  }
  bool end_object() override {
    if (place_ == Place::Names) return go(Place::End);
    if (place_ == Place::Fields) finish_tensor();
    has_name_ = false;
    return go(Place::Names);
  }
  bool key(std::string& key) override {
    if (place_ == Place::Metadata) {
      field_ = key;
      if (out_.metadata.contains(key))
        fail("a key stands twice in " + std::string(kMetadata), "key " + key);
    } else if (place_ == Place::Fields) {
      start_field(key);
    } else {
      start_name(key);
    }
    return true;
  }
  bool string(std::string& text) override {
    if (place_ == Place::Metadata) {
      out_.metadata.emplace(field_, text);
      return true;
    }
    if (place_ != Place::Fields || field_ != "dtype") return unexpected("a string");
    entry_.type = find_safetensors_type(text);
    if (entry_.type == nullptr)
      fail("unknown type: expected one of " + known_types() + ", got " + text);
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::Fields || field_ == "dtype") return unexpected("a list");
    return go(field_ == "shape" ? Place::Shape : Place::Offsets);
  }
  bool end_array() override {
    if (place_ == Place::Offsets && offsets_ != 2)
      fail("bad data_offsets: expected two numbers, got " + std::to_string(offsets_));
    return go(Place::Fields);
  }
  bool number_unsigned(std::uint64_t number) override {
    if (place_ == Place::Shape) {
      if (entry_.shape.size() == kDimensions)
        fail("too many dimensions: expected at most " + std::to_string(kDimensions));
      entry_.shape.push_back(number);
      return true;
    }
    if (place_ != Place::Offsets) return unexpected("a number");
    if (offsets_ < 2) (offsets_ == 0 ? entry_.begin : entry_.end) = number;
    ++offsets_;
    return true;
  }
  bool number_integer(std::int64_t /*number*/) override { return unexpected("a negative number"); }
  bool number_float(double /*number*/, const std::string& /*text*/) override {
    return unexpected("a number that is no integer");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a truth value"); }
  bool binary(Json::binary_t& /*value*/) override { return unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    throw Error(file_, "the header is no JSON", "at byte " + std::to_string(position + 7));
  }

 private:
  enum class Place { Start, Names, Metadata, Fields, Shape, Offsets, End };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  [[noreturn]] void fail(const std::string& message, const std::string& where) const {
    throw Error(file_, message, where);
  }
  [[noreturn]] void fail(const std::string& message) const {
    fail(message, has_name_ ? "tensor " + name_ : std::string());
  }
  bool unexpected(const std::string& what) const {
    fail("bad header: expected {\"NAME\": {\"dtype\", \"shape\", \"data_offsets\"}}, got " + what +
         (field_.empty() ? "" : " at \"" + field_ + "\""));
  }

  void start_name(const std::string& name) {
    has_name_ = true;
    name_ = name;
    field_.clear();
    if (name.empty()) fail("a tensor has no name");
    if (name.size() > limits::kKeyBytes)
      fail("name too long: expected at most " + std::to_string(limits::kKeyBytes) + " bytes");
    if (name.find('\0') != std::string::npos) fail("NUL in a name");
    if (!names_.insert(name).second) fail("a name stands twice");
    if (names_.size() > limits::kTensors)
      fail("too many tensors: expected at most " + std::to_string(limits::kTensors));
    entry_ = {.name = name};
    fields_.clear();
    offsets_ = 0;
  }

  void start_field(const std::string& field) {
    if (field != "dtype" && field != "shape" && field != "data_offsets")
      fail("unknown field: expected dtype, shape and data_offsets, got " + field);
    if (!fields_.insert(field).second) fail("a field stands twice: " + field);
    field_ = field;
  }

  void finish_tensor() {
    if (fields_.size() != 3) fail("a field is missing: expected dtype, shape and data_offsets");
    std::optional<std::uint64_t> bytes = entry_.type->bytes;
    for (const std::uint64_t n : entry_.shape) bytes = bytes ? limits::multiply(*bytes, n) : bytes;
    if (!bytes) fail("the shape has more than 2^64 bytes");
    if (entry_.end < entry_.begin || entry_.end - entry_.begin != *bytes)
      fail("data_offsets do not fit type and shape: expected " + counted(*bytes, "byte") +
           ", got " + std::to_string(entry_.begin) + " to " + std::to_string(entry_.end));
    out_.tensors.push_back(std::move(entry_));
    field_.clear();
  }

  const std::string& file_;
  SafetensorsHeader& out_;
  Place place_ = Place::Start;
  bool has_name_ = false;
  std::string name_, field_;
  SafetensorsEntry entry_;
  std::size_t offsets_ = 0;
  std::set<std::string> names_, fields_;
};

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                   [name](const SafetensorsType& type) { return type.name == name; });
  return found == std::end(kSafetensorsTypes) ? nullptr : found;
}

const SafetensorsType* find_safetensors_type(DType dtype) noexcept {
  const auto* const found =
      std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                   [dtype](const SafetensorsType& type) { return type.dtype == dtype; });
  return found == std::end(kSafetensorsTypes) ? nullptr : found;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file) {
  SafetensorsHeader header;
  HeaderReader reader(file, header);
  Json::sax_parse(json, &reader);
  return header;
}

}  // namespace cria
