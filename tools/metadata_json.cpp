#include "tools/metadata_json.h"

#include <algorithm>
#include <cstring>

namespace cria::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Walks the payload of a value; GgufFile has checked that all of it lies in the file.
class Walker {
 public:
  Walker(const std::byte* data, std::uint32_t version, std::size_t most)
      : data_(data), version_(version), most_(most) {}

  Json scalar(GgufType type) {
    switch (type) {
      case GgufType::U8:
        return take<std::uint8_t>();
      case GgufType::I8:
        return take<std::int8_t>();
      case GgufType::U16:
        return take<std::uint16_t>();
      case GgufType::I16:
        return take<std::int16_t>();
      case GgufType::U32:
        return take<std::uint32_t>();
      case GgufType::I32:
        return take<std::int32_t>();
      case GgufType::U64:
        return take<std::uint64_t>();
      case GgufType::I64:
        return take<std::int64_t>();
      case GgufType::F32:
        return take<float>();
      case GgufType::F64:
        return take<double>();
      case GgufType::Bool:
        return take<std::uint8_t>() != 0;
      case GgufType::String:
        return string(length());
      case GgufType::Array:
        break;
    }
    const auto element = static_cast<GgufType>(take<std::uint32_t>());
    return array(element, length());
  }

  Json string(std::uint64_t bytes) {
    const std::string text(reinterpret_cast<const char*>(data_), bytes);
    data_ += bytes;
    return text;
  }

  Json array(GgufType element, std::uint64_t count) {
    Json list = Json::array();
    for (std::uint64_t i = 0; i < count; ++i) {
      Json value = scalar(element);
      if (i < most_) list.push_back(std::move(value));
    }
    return list;
  }

 private:
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, data_, sizeof value);
    data_ += sizeof value;
    return value;
  }
  std::uint64_t length() { return version_ == 1 ? take<std::uint32_t>() : take<std::uint64_t>(); }

  const std::byte* data_;
  std::uint32_t version_;
  std::size_t most_;
};

}  // namespace

nlohmann::ordered_json metadata_json(const GgufValue& value, std::uint32_t version, std::size_t most) {
  Walker walker(value.data, version, most);
  if (value.type == GgufType::String) return walker.string(value.count);
  if (value.type == GgufType::Array)
    return walker.array(value.element, std::min<std::uint64_t>(value.count, most));
  return walker.scalar(value.type);
}

}  // namespace cria::tools
