#include "tests/fuzz/gguf_form.h"

#include <algorithm>
#include <cstring>

namespace cria::fuzz {
namespace {

constexpr int kDeepest = 4;

std::size_t width_of(GgufType type) {
  constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return static_cast<std::size_t>(type) < std::size(kWidths)
             ? kWidths[static_cast<std::size_t>(type)]
             : 0;
}

/// Reads available bytes; ok() becomes false at the end.
class LenientReader {
 public:
  explicit LenientReader(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t position() const { return at_; }

  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  template <class T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof value);
    bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::uint64_t count(std::uint32_t version) {
    return version == 1 ? number<std::uint32_t>() : number<std::uint64_t>();
  }
  void skip(GgufType type, std::uint32_t version, int depth = 0) {
    if (type == GgufType::String) {
      take(count(version));
    } else if (type == GgufType::Array) {
      const auto element = number<GgufType>();
      const std::uint64_t n = count(version);
      if (depth == kDeepest || n > bytes_.size()) ok_ = false;
      if (const std::size_t width = width_of(element); ok_ && width > 0)
        take(n * width);
      else
        for (std::uint64_t i = 0; ok_ && i < n; ++i) skip(element, version, depth + 1);
    } else if (const std::size_t width = width_of(type); width > 0) {
      take(width);
    } else {
      ok_ = false;
    }
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

/// Writes and records the places of numbers.
class FormWriter {
 public:
  FormWriter(std::uint32_t version, std::vector<GgufForm::Number>* numbers)
      : version_(version), numbers_(numbers) {}
  template <class T>
  void number(T value) {
    if (numbers_ != nullptr) numbers_->push_back({out.size(), sizeof value});
    out += bytes_of(value);
  }
  void count(std::uint64_t n) {
    if (version_ == 1)
      number(static_cast<std::uint32_t>(n));
    else
      number(n);
  }
  void text(std::string_view value) {
    count(value.size());
    out += value;
  }

  std::string out;

 private:
  std::uint32_t version_;
  std::vector<GgufForm::Number>* numbers_;
};

constexpr std::size_t kMost = 10'000;  // keys or tensors

}  // namespace

std::optional<GgufForm> GgufForm::parse(std::string_view bytes) {
  LenientReader in(bytes);
  if (in.take(4) != "GGUF") return std::nullopt;
  GgufForm form;
  form.version = in.number<std::uint32_t>();
  const std::uint64_t n_tensors = in.count(form.version), n_keys = in.count(form.version);
  if (n_tensors > kMost || n_keys > kMost) return std::nullopt;
  for (std::uint64_t i = 0; i < n_keys && in.ok(); ++i) {
    Key key;
    key.name = in.take(in.count(form.version));
    key.type = in.number<GgufType>();
    const std::size_t begin = in.position();
    in.skip(key.type, form.version);
    if (in.ok()) key.payload = bytes.substr(begin, in.position() - begin);
    if (key.name == "general.alignment" && key.payload.size() == 4)
      std::memcpy(&form.alignment, key.payload.data(), 4);
    form.keys.push_back(std::move(key));
  }
  for (std::uint64_t i = 0; i < n_tensors && in.ok(); ++i) {
    Tensor tensor;
    tensor.name = in.take(in.count(form.version));
    const auto dimensions = in.number<std::uint32_t>();
    for (std::uint32_t d = 0; d < dimensions && in.ok(); ++d)
      tensor.shape.push_back(in.count(form.version));
    tensor.type = in.number<std::uint32_t>();
    tensor.offset = in.number<std::uint64_t>();
    form.tensors.push_back(std::move(tensor));
  }
  if (!in.ok()) return std::nullopt;
  if (form.alignment == 0 || form.alignment > 1 << 16) form.alignment = 32;
  in.take((form.alignment - in.position() % form.alignment) % form.alignment);
  form.data = bytes.substr(std::min(in.position(), bytes.size()));
  return form;
}

std::string GgufForm::bytes(std::vector<Number>* numbers) const {
  FormWriter to(version, numbers);
  to.out = "GGUF";
  to.number(version);
  to.count(tensors.size());
  to.count(keys.size());
  for (const Key& key : keys) {
    to.text(key.name);
    to.number(key.type);
    if (numbers != nullptr && key.payload.size() >= 4) numbers->push_back({to.out.size(), 4});
    if (numbers != nullptr && key.type == GgufType::Array && key.payload.size() >= 12)
      numbers->push_back({to.out.size() + 4, 8});
    to.out += key.payload;
  }
  for (const Tensor& tensor : tensors) {
    to.text(tensor.name);
    to.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t n : tensor.shape) to.count(n);
    to.number(tensor.type);
    to.number(tensor.offset);
  }
  if (!tensors.empty() || !data.empty())
    to.out.resize((to.out.size() + alignment - 1) / alignment * alignment);
  return to.out + data;
}

GgufForm::Key* GgufForm::find(std::string_view name) {
  const auto found = std::ranges::find(keys, name, &Key::name);
  return found == keys.end() ? nullptr : &*found;
}

void GgufForm::set(std::string_view name, GgufType type, std::string payload) {
  Key* const key = find(name);
  if (key != nullptr)
    *key = {std::string(name), type, std::move(payload)};
  else
    keys.push_back({std::string(name), type, std::move(payload)});
}

void GgufForm::place_tensors(std::size_t max_bytes) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t end = 0;
  for (const Tensor& tensor : tensors) {
    const DTypeInfo* type = find_dtype(tensor.type);
    std::uint64_t values = type == nullptr ? 0 : 1;
    for (const std::uint64_t n : tensor.shape)
      values = n > max_bytes * 8 ? ~std::uint64_t{0} >> 32 : values * n % (1ULL << 32);
    offsets.push_back(end);
    if (type != nullptr)
      end += values / type->block_values * type->block_bytes +
             values / std::max<std::uint64_t>(1, tensor.shape.empty() ? 1 : tensor.shape[0]) *
                 type->header_bytes;
    end = (end + alignment - 1) / alignment * alignment;
    if (end > max_bytes) return;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].offset = offsets[i];
  if (data.empty()) data = std::string(1, '\0');
  const std::size_t before = std::min<std::size_t>(data.size(), std::max<std::size_t>(end, 1));
  data.resize(end);
  for (std::size_t i = before; i < end; ++i) data[i] = data[i - before];
}

}  // namespace cria::fuzz
