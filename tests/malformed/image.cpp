#include "tests/malformed/image.h"

#include <algorithm>
#include <stdexcept>
#include <type_traits>

namespace cria::test {
namespace {

// The width of lengths and counts changed after version 1.
std::string count_bytes(std::uint64_t n, std::uint32_t version) {
  return version == 1 ? raw(static_cast<std::uint32_t>(n)) : raw(n);
}

std::string payload(const GgufData& data, std::uint32_t version) {
  return std::visit(
      [version](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return count_bytes(value.size(), version) + value;
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          std::string out = raw(static_cast<std::uint32_t>(value.element)) +
                            count_bytes(value.values.size(), version);
          for (const GgufData& element : value.values) out += payload(element, version);
          return out;
        } else {
          return raw(value);
        }
      },
      static_cast<const GgufDataVariant&>(data));
}

template <typename List>
auto& named(List& list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [name](const auto& part) { return part.name == name; });
  if (found == list.end()) throw std::logic_error("the valid file has no " + std::string(name));
  return *found;
}

}  // namespace

GgufData& Image::set(std::string_view name) {
  if (std::none_of(keys.begin(), keys.end(), [name](const Key& key) { return key.name == name; }))
    keys.push_back({std::string(name), GgufData()});
  return key(name).value;
}

Image::Key& Image::first_key(std::string name, GgufData value) {
  return *keys.insert(keys.begin(), {std::move(name), std::move(value)});
}

Image::Key& Image::key(std::string_view name) { return named(keys, name); }
Image::Tensor& Image::tensor(std::string_view name) { return named(tensors, name); }

void Image::erase(std::string_view name) {
  named(keys, name);  // a defect without effect would be a test that cannot fail
  std::erase_if(keys, [name](const Key& key) { return key.name == name; });
}

void Image::remove(std::string_view name) {
  named(tensors, name);
  std::erase_if(tensors, [name](const Tensor& tensor) { return tensor.name == name; });
}

std::string Image::header() const {
  std::string out = magic + raw(version) +
                    count_bytes(tensor_count.value_or(tensors.size()), version) +
                    count_bytes(key_count.value_or(keys.size()), version);
  for (const Key& key : keys) {
    out += count_bytes(key.length.value_or(key.name.size()), version) + key.name;
    out += raw(key.type.value_or(static_cast<std::uint32_t>(key.value.type())));
    out += key.payload ? *key.payload : payload(key.value, version);
  }
  std::uint64_t place = 0;
  for (const Tensor& tensor : tensors) {
    out += count_bytes(tensor.length.value_or(tensor.name.size()), version) + tensor.name;
    out += raw(tensor.dimensions.value_or(static_cast<std::uint32_t>(tensor.shape.size())));
    for (const std::uint64_t n : tensor.shape) out += count_bytes(n, version);
    out += raw(tensor.type) + raw(tensor.offset.value_or(place));
    place += aligned(tensor.data.size());
  }
  return out;
}

std::string Image::bytes() const {
  std::string out = header();
  if (!tensors.empty()) out.resize(aligned(out.size()));
  const std::uint64_t begin = out.size();
  for (const Tensor& tensor : tensors) {
    out.resize(begin + aligned(out.size() - begin));
    out += tensor.data;
  }
  return out + tail;
}

}  // namespace cria::test
