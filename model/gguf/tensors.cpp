// The tensor table and the data section behind it.
#include <algorithm>
#include <numeric>

#include "model/file/mapping.h"
#include "model/file/utf8.h"
#include "model/gguf/parser.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {

namespace {

std::string why_unknown(std::uint32_t id) {
  if (id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38))
    return ", removed from the format";
  if (id >= 42 && id < 97) return ", newer than this program";
  if (id >= 97 && id < 400) return ", a type of the ik_llama.cpp fork";
  return "";
}

/// Reads the table; the data section is placed when its beginning is known.
class TensorReader {
 public:
  TensorReader(Cursor& cursor, GgufShard& shard) : cursor_(cursor), shard_(shard) {}

  void read(std::uint64_t count) {
    shard_.tensors.reserve(count);
    offsets_.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      TensorView tensor;
      tensor.name = read_name();
      cursor_.enter("tensor", tensor.name);
      read_shape(tensor);
      read_type(tensor);
      read_offset(tensor);
      shard_.tensors.push_back(std::move(tensor));
      cursor_.enter();
    }
    warn_of_long_names();
  }

  void place(std::span<const std::byte> bytes, bool metadata_only) {
    const std::size_t begin = align(cursor_.position());
    const std::size_t available = begin <= bytes.size() ? bytes.size() - begin : 0;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      TensorView& tensor = shard_.tensors[i];
      const std::uint64_t end = offsets_[i] + tensor.bytes;  // cannot wrap: see read_offset
      tensor.offset = begin + offsets_[i];
      if (end <= available) {
        tensor.data = bytes.data() + begin + offsets_[i];
      } else if (!metadata_only) {
        fail("file ends before the tensor's data: expected at least " +
                 counted(begin + end, "byte") + ", got " + std::to_string(bytes.size()) + ", " +
                 std::to_string(begin + end - bytes.size()) + " missing",
             tensor.name);
      }
    }
    check_end(bytes, begin, check_overlap());
  }

 private:
  void warn_of_long_names() {
    if (long_names_ == 0) return;
    const std::string those =
        long_names_ == 1 ? "tensor name" : counted(long_names_, "tensor name");
    shard_.warnings.push_back(those + " longer than 63 bytes, which other programs refuse: " +
                              printable(first_long_name_.substr(0, 63)) + "…");
  }

  std::string_view read_name() {
    const std::string at = cursor_.at();
    const std::string_view name =
        read_string(cursor_, shard_.version, limits::kKeyBytes, shard_.path, "a tensor name");
    if (name.empty()) throw Error(shard_.path, "empty tensor name", at);
    if (name.find('\0') != std::string_view::npos)
      throw Error(shard_.path, "NUL byte in a tensor name", at);
    if (!is_utf8(name)) throw Error(shard_.path, "tensor name is not UTF-8", at);
    if (name.size() > limits::kUsualTensorNameBytes && long_names_++ == 0) first_long_name_ = name;
    return name;
  }

  void read_shape(TensorView& tensor) {
    const auto dimensions = cursor_.read<std::uint32_t>("the number of dimensions");
    if (dimensions == 0 || dimensions > limits::kDimensions) {
      fail("bad number of dimensions: expected 1 to 4, got " + std::to_string(dimensions),
           tensor.name);
    }
    tensor.shape.reserve(dimensions);
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      tensor.shape.push_back(read_count(cursor_, shard_.version, "a dimension"));
    }
    if (std::count(tensor.shape.begin(), tensor.shape.end(), 0) != 0)
      fail("a dimension is 0: shape " + tensor.shape_string(), tensor.name);
  }

  void read_type(TensorView& tensor) {
    const auto id = cursor_.read<std::uint32_t>("a tensor type");
    const DTypeInfo* const info = find_dtype(id);
    if (info == nullptr)
      fail("unknown tensor type: got " + std::to_string(id) + why_unknown(id), tensor.name);
    tensor.dtype = info->id;
    if (tensor.shape[0] % info->block_values != 0) {
      fail("row length does not fit the type: expected a multiple of " +
               std::to_string(info->block_values) + " for " + std::string(info->name) + ", got " +
               std::to_string(tensor.shape[0]),
           tensor.name);
    }
    if (const std::uint64_t rows = tensor.shape.size() < 2 ? 1 : tensor.shape[1];
        rows % info->interleaved_rows != 0) {
      fail("number of rows does not fit the type: expected a multiple of " +
               std::to_string(info->interleaved_rows) + " for " + std::string(info->name) +
               ", got " + std::to_string(rows),
           tensor.name);
    }
    std::optional<std::uint64_t> values = 1, bytes = row_bytes(*info, tensor.shape[0]);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (values) values = limits::multiply(*values, tensor.shape[i]);
      if (bytes && i > 0) bytes = limits::multiply(*bytes, tensor.shape[i]);
    }
    // Half the range is far beyond any file and leaves room to add offsets.
    if (!values || !bytes || *bytes > kHalf)
      fail("tensor size overflows: shape " + tensor.shape_string(), tensor.name);
    tensor.bytes = *bytes;
  }

  static std::optional<std::uint64_t> row_bytes(const DTypeInfo& info, std::uint64_t cols) {
    const auto blocks = limits::multiply(cols / info.block_values, info.block_bytes);
    if (!blocks || *blocks > kHalf) return std::nullopt;
    return info.header_bytes + *blocks;
  }

  void read_offset(const TensorView& tensor) {
    const auto offset = cursor_.read<std::uint64_t>("a tensor offset");
    if (offset % shard_.alignment != 0) {
      fail("misaligned offset: expected a multiple of " + std::to_string(shard_.alignment) +
               ", got " + std::to_string(offset),
           tensor.name);
    }
    if (offset > kHalf / 2)
      fail("offset past any file: got " + std::to_string(offset), tensor.name);
    offsets_.push_back(offset);
  }

  /// Returns the end of the last tensor relative to the data section.
  std::uint64_t check_overlap() const {
    std::vector<std::size_t> order(offsets_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return offsets_[a] < offsets_[b]; });
    std::uint64_t end = 0;
    for (const std::size_t i : order) {
      if (offsets_[i] < end) {
        fail("tensor overlaps the one before it: expected an offset of at least " +
                 std::to_string(end) + ", got " + std::to_string(offsets_[i]),
             shard_.tensors[i].name);
      }
      end = offsets_[i] + shard_.tensors[i].bytes;
    }
    return end;
  }

  // Trailing bytes are harmless, but another GGUF file there means that shards were joined with
  // `cat`.
  void check_end(std::span<const std::byte> bytes, std::size_t begin, std::uint64_t end) const {
    for (const std::uint64_t next : {begin + end, begin + align(end)}) {
      if (next <= bytes.size() && bytes.size() - next >= sizeof(kGgufMagic) &&
          std::memcmp(bytes.data() + next, kGgufMagic, sizeof(kGgufMagic)) == 0) {
        throw Error(
            shard_.path,
            "another GGUF file follows (shards joined with cat?): expected the end of the file",
            "at byte " + std::to_string(next));
      }
    }
  }

  [[nodiscard]] std::uint64_t align(std::uint64_t n) const {
    return (n + shard_.alignment - 1) & ~(shard_.alignment - 1);
  }

  [[noreturn]] void fail(const std::string& message, std::string_view tensor) const {
    throw Error(shard_.path, message, "tensor " + std::string(tensor));
  }

  static constexpr std::uint64_t kHalf = std::uint64_t{1} << 62;
  Cursor& cursor_;
  GgufShard& shard_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t long_names_ = 0;
  std::string_view first_long_name_;
};

}  // namespace

void read_tensors(Cursor& cursor, std::span<const std::byte> bytes, std::uint64_t count,
                  bool metadata_only, GgufShard& shard) {
  TensorReader reader(cursor, shard);
  reader.read(count);
  reader.place(bytes, metadata_only);
}

namespace {

constexpr std::uint64_t kMaxShards = 65535;  // split.count is 16 bits wide

std::optional<std::uint64_t> find_number(const GgufShard& shard, std::string_view key) {
  const GgufValue* const value = shard.find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_uint(*value);
  if (!number) {
    throw Error(
        shard.path,
        "wrong type of a key: expected an unsigned integer, got " + std::string(name(value->type)),
        "key " + std::string(key));
  }
  return number;
}

std::uint64_t shard_number(const GgufShard& shard) {
  const auto number = find_number(shard, "split.no");
  if (!number) throw Error(shard.path, "shard of a split model without its number", "key split.no");
  return *number;
}

std::string five_digits(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string ending(std::uint64_t number, std::uint64_t count) {
  return "-" + five_digits(number + 1) + "-of-" + five_digits(count) + ".gguf";
}

}  // namespace

std::string SplitPlan::path(std::uint32_t number) const { return prefix + ending(number, count); }

std::optional<SplitPlan> plan_split(const GgufShard& first) {
  const std::uint64_t count = find_number(first, "split.count").value_or(0);
  if (count <= 1) return std::nullopt;
  if (count > kMaxShards) {
    throw Error(first.path, "too many shards: expected at most 65535, got " + std::to_string(count),
                "key split.count");
  }
  if (const std::uint64_t number = shard_number(first); number != 0) {
    throw Error(first.path,
                "a later shard of a split model: expected the first one (" + ending(0, count) +
                    "), got shard " + std::to_string(number + 1) + " of " + std::to_string(count),
                "key split.no");
  }
  const std::string expected = ending(0, count);
  if (!first.path.ends_with(expected)) {
    throw Error(first.path,
                "first shard of " + std::to_string(count) + ": expected a name that ends in " +
                    expected + " to find the others by",
                "key split.count");
  }
  return SplitPlan{first.path.substr(0, first.path.size() - expected.size()),
                   static_cast<std::uint32_t>(count), find_number(first, "split.tensors.count")};
}

void check_shard(const SplitPlan& plan, const GgufShard& first, const GgufShard& shard,
                 std::uint32_t number) {
  const std::uint64_t count = find_number(shard, "split.count").value_or(0);
  if (count != plan.count) {
    throw Error(shard.path,
                "shards disagree on their count: expected " + std::to_string(plan.count) +
                    ", got " + std::to_string(count),
                "key split.count");
  }
  if (const std::uint64_t got = shard_number(shard); got != number) {
    throw Error(shard.path,
                "wrong shard under this name: expected number " + std::to_string(number) +
                    ", got " + std::to_string(got),
                "key split.no");
  }
  const auto tensors = find_number(shard, "split.tensors.count");
  if (plan.tensors && tensors && *tensors != *plan.tensors) {
    throw Error(
        shard.path,
        "shard of another model: its count of tensors differs from the first shard's: expected " +
            std::to_string(*plan.tensors) + ", got " + std::to_string(*tensors),
        "key split.tensors.count");
  }
  if (shard.version != first.version) {
    throw Error(shard.path,
                "shards disagree on the GGUF version: expected " + std::to_string(first.version) +
                    ", got " + std::to_string(shard.version),
                "at byte 4");
  }
}

void check_total(const SplitPlan& plan, const std::string& path, std::size_t tensors) {
  if (plan.tensors && *plan.tensors != tensors) {
    throw Error(path,
                "wrong number of tensors in all shards: expected " + std::to_string(*plan.tensors) +
                    ", got " + std::to_string(tensors),
                "key split.tensors.count");
  }
}

}  // namespace cria
