#include "model/gguf/writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "model/file/mapping.h"
#include "model/gguf/parser.h"

namespace cria {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kDefaultAlignment = 32;

template <typename T>
void append(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  out.append(text);
}

// Payload only: the type stands before it once per value or once per array.
void append_value(std::string& out, const GgufData& data) {
  std::visit(
      [&out](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          append_string(out, value);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          assert(value.values.empty() || value.payload.empty());
          append(out, static_cast<std::uint32_t>(value.element));
          append<std::uint64_t>(out, value.values.size() + value.copied);
          for (const GgufData& element : value.values) {
            assert(element.type() == value.element);
            append_value(out, element);
          }
          out.append(value.payload);
        } else {
          append(out, value);
        }
      },
      static_cast<const GgufDataVariant&>(data));
}

std::uint64_t align(std::uint64_t n, std::uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

}  // namespace

GgufData scalar_value(GgufType type, const std::byte* data) {
  GgufData out;
  const auto read = [&]<std::size_t index>() {
    using T = std::variant_alternative_t<index, GgufDataVariant>;
    if (static_cast<std::size_t>(type) != index) return;
    if constexpr (std::is_same_v<T, bool>) {
      out = *data != std::byte{0};
    } else if constexpr (std::is_arithmetic_v<T>) {
      T value;
      std::memcpy(&value, data, sizeof value);
      out = value;
    }
  };
  [&]<std::size_t... index>(std::index_sequence<index...>) {
    (read.template operator()<index>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<GgufDataVariant>>());
  return out;
}

GgufData copy_value(const GgufFile& file, const GgufValue& value) {
  if (value.type == GgufType::String)
    return std::string(reinterpret_cast<const char*>(value.data), value.bytes);
  if (value.type != GgufType::Array) return scalar_value(value.type, value.data);
  GgufArray array{.element = value.element, .values = {}, .copied = value.count};
  if (file.version() > 1 || scalar_bytes(value.element) != 0) {
    array.payload.assign(reinterpret_cast<const char*>(value.data), value.bytes);
  } else {  // version 1 has shorter lengths
    file.visit_elements(value, [&](const GgufValue& element) {
      append_value(array.payload, copy_value(file, element));
    });
  }
  return array;
}

void require_other_file(const GgufFile& input, const std::string& target) {
  for (const std::string& path : input.paths()) require_other_file(path, target);
}

GgufWriter::GgufWriter(std::string path, std::uint64_t alignment)
    : path_(std::move(path)), alignment_(alignment) {
  if (alignment_ != kDefaultAlignment)
    set("general.alignment", static_cast<std::uint32_t>(alignment_));
}

void GgufWriter::set(std::string_view key, GgufData value) {
  const auto [found, is_new] = key_index_.emplace(key, keys_.size());
  if (is_new)
    keys_.emplace_back(key, std::move(value));
  else
    keys_[found->second].second = std::move(value);
}

void GgufWriter::declare(std::string_view name, DType dtype, std::vector<std::uint64_t> shape) {
  assert(!file_ && !shape.empty());
  TensorView view{.name = name, .dtype = dtype, .shape = shape};
  const std::uint32_t block = dtype_info(dtype).block_values;
  if (view.cols() % block != 0) {
    throw Error(path_,
                "row length does not fit the type: expected a multiple of " +
                    std::to_string(block) + ", got " + std::to_string(view.cols()),
                "tensor " + std::string(name));
  }
  const std::uint64_t bytes = view.row_bytes() * view.rows();
  tensors_.push_back({std::string(name), dtype, std::move(shape), bytes});
}

template <class Put>
void GgufWriter::header(Put&& put) const {
  std::string out(kGgufMagic, sizeof(kGgufMagic));
  append(out, kVersion);
  append<std::uint64_t>(out, tensors_.size());
  append<std::uint64_t>(out, keys_.size());
  for (const auto& [key, value] : keys_) {
    append_string(out, key);
    append(out, static_cast<std::uint32_t>(value.type()));
    append_value(out, value);
    put(std::exchange(out, {}));
  }
  std::uint64_t offset = 0;
  for (const Declared& tensor : tensors_) {
    append_string(out, tensor.name);
    append(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t dimension : tensor.shape) append(out, dimension);
    append(out, static_cast<std::uint32_t>(tensor.dtype));
    append(out, offset);
    offset += align(tensor.bytes, alignment_);
  }
  put(out);
}

std::string GgufWriter::metadata() const {
  std::string bytes;
  header([&](const std::string& part) { bytes += part; });
  return bytes;
}

std::uint64_t GgufWriter::file_bytes() const {
  std::uint64_t bytes = 0;
  header([&](const std::string& part) { bytes += part.size(); });
  bytes = align(bytes, alignment_);
  for (const Declared& tensor : tensors_) bytes += align(tensor.bytes, alignment_);
  return bytes;
}

void GgufWriter::begin() {
  assert(!file_);
  file_.emplace(path_, file_bytes());
  std::uint64_t written = 0;
  header([&](const std::string& part) {
    file_->write(part);
    written += part.size();
  });
  pad(written);
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  assert(file_ && current_ < tensors_.size());
  const std::uint64_t size = tensors_[current_].bytes;
  assert(bytes.size() <= size - in_current_);
  file_->write(bytes.data(), bytes.size());
  in_current_ += bytes.size();
  if (in_current_ < size) return;
  pad(size);
  ++current_;
  in_current_ = 0;
}

void GgufWriter::complete() {
  assert(file_);
  if (current_ != tensors_.size())
    throw Error(path_, "data is missing", "tensor " + tensors_[current_].name);
  file_->complete();
}

void GgufWriter::replace() {
  assert(file_);
  file_->replace();
  file_.reset();
}

void GgufWriter::pad(std::uint64_t written) {
  file_->write(std::string(align(written, alignment_) - written, '\0'));
}

}  // namespace cria
