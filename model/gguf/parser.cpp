#include "model/gguf/parser.h"

#include <array>
#include <bit>

#include "model/file/mapping.h"
#include "model/file/utf8.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {

namespace {

constexpr std::uint32_t kMaxVersion = 3;

void check_magic(Cursor& cursor, std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.empty()) throw Error(path, "file is empty: expected a GGUF file");
  if (bytes.size() < sizeof(kGgufMagic) ||
      std::memcmp(bytes.data(), kGgufMagic, sizeof(kGgufMagic)) != 0) {
    throw Error(path, "not a GGUF file: expected the bytes 'GGUF', got " + describe_magic(bytes),
                "at byte 0");
  }
  cursor.take(sizeof(kGgufMagic), "the magic number");
}

std::uint32_t read_version(Cursor& cursor, const std::string& path) {
  const auto version = cursor.read<std::uint32_t>("the version");
  if (version >= 1 && version <= kMaxVersion) return version;
  const bool big_endian = (version & 0xFFFF) == 0 && version != 0;
  throw Error(path,
              big_endian ? "big-endian GGUF file: expected little-endian numbers; convert the file"
                         : "unknown GGUF version: expected 1 to 3, got " + std::to_string(version),
              "at byte 4");
}

// The smallest entry bounds a declared count by the bytes that are left.
std::uint64_t read_checked_count(Cursor& cursor, const GgufShard& shard, std::string_view what,
                                 std::uint64_t limit, std::uint64_t smallest_entry) {
  const std::uint64_t offset = cursor.position();
  const std::uint64_t count = read_count(cursor, shard.version, what);
  const std::uint64_t possible = std::min(limit, cursor.remaining() / smallest_entry);
  if (count > possible) {
    throw Error(shard.path,
                "impossible " + std::string(what) + ": expected at most " +
                    std::to_string(possible) + ", got " + std::to_string(count),
                "at byte " + std::to_string(offset));
  }
  return count;
}

std::string_view read_key(Cursor& cursor, const GgufShard& shard) {
  const std::string at = cursor.at();
  const std::string_view key =
      read_string(cursor, shard.version, limits::kKeyBytes, shard.path, "a key");
  if (key.empty()) throw Error(shard.path, "empty key", at);
  if (key.find('\0') != std::string_view::npos) throw Error(shard.path, "NUL byte in a key", at);
  if (!is_utf8(key)) throw Error(shard.path, "key is not UTF-8", at);
  return key;
}

void read_keys(Cursor& cursor, std::uint64_t count, GgufShard& shard) {
  shard.keys.reserve(count);
  shard.key_index.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = read_key(cursor, shard);
    if (!shard.key_index.emplace(key, i).second)
      throw Error(shard.path, "duplicate key", "key " + std::string(key));
    cursor.enter("key", key);
    shard.keys.push_back({key, read_value(cursor, shard.version, shard.path)});
    cursor.enter();
  }
}

void read_alignment(GgufShard& shard) {
  constexpr std::string_view key = "general.alignment";
  const GgufValue* const value = shard.find(key);
  if (value == nullptr) return;
  const std::optional<std::uint64_t> alignment = as_uint(*value);
  if (!alignment) {
    throw Error(
        shard.path,
        "wrong type of a key: expected an unsigned integer, got " + std::string(name(value->type)),
        "key general.alignment");
  }
  if (!std::has_single_bit(*alignment) || *alignment < limits::kMinAlignment ||
      *alignment > limits::kMaxAlignment) {
    throw Error(shard.path,
                "bad alignment: expected a power of two from 8 to 1048576, got " +
                    std::to_string(*alignment),
                "key general.alignment");
  }
  shard.alignment = *alignment;
}

}  // namespace

const GgufValue* GgufShard::find(std::string_view key) const noexcept {
  const auto found = key_index.find(key);
  return found == key_index.end() ? nullptr : &keys[found->second].value;
}

GgufShard parse_gguf(std::span<const std::byte> bytes, const std::string& path,
                     bool metadata_only) {
  GgufShard shard;
  shard.path = path;
  Cursor cursor(bytes, path);
  check_magic(cursor, bytes, path);
  shard.version = read_version(cursor, path);
  const std::uint64_t word = shard.version == 1 ? 4 : 8;  // bytes of a length
  const std::uint64_t tensor_count = read_checked_count(
      cursor, shard, "tensor count", limits::kTensors, word + 1 + 4 + word + 4 + 8);
  const std::uint64_t key_count =
      read_checked_count(cursor, shard, "key count", limits::kKeys, word + 1 + 4 + 1);
  read_keys(cursor, key_count, shard);
  read_alignment(shard);
  read_tensors(cursor, bytes, tensor_count, metadata_only, shard);
  return shard;
}

// Metadata values: each is walked once when the file is opened, so that later readers need no
// checks.

namespace {

struct TypeRow {
  std::string_view name;
  std::size_t bytes;  // 0: not a scalar
};
constexpr std::array<TypeRow, 13> kTypes = {{{"u8", 1},
                                             {"i8", 1},
                                             {"u16", 2},
                                             {"i16", 2},
                                             {"u32", 4},
                                             {"i32", 4},
                                             {"f32", 4},
                                             {"bool", 1},
                                             {"string", 0},
                                             {"array", 0},
                                             {"u64", 8},
                                             {"i64", 8},
                                             {"f64", 8}}};

/// Walks values of one key; what it needs for errors is kept here.
class ValueReader {
 public:
  ValueReader(Cursor& cursor, std::uint32_t version, std::string_view path)
      : cursor_(cursor), version_(version), path_(path) {}

  GgufType type(std::string_view what) {
    const std::size_t begin = cursor_.position();
    const auto id = cursor_.read<std::uint32_t>(what);
    if (id >= kTypes.size())
      fail("unknown value type: expected 0 to 12, got " + std::to_string(id), begin);
    return static_cast<GgufType>(id);
  }

  GgufValue value(GgufType type, int depth) {
    if (type == GgufType::Array) return array(depth);
    GgufValue value{.type = type};
    if (type == GgufType::String) {
      const std::string_view text = string();
      value.count = text.size();
      value.data = reinterpret_cast<const std::byte*>(text.data());
    } else {
      value.data = cursor_.take(scalar_bytes(type), "a value");
      if (type == GgufType::Bool) check_bools(1);
    }
    value.bytes = static_cast<std::size_t>(cursor_.here() - value.data);
    return value;
  }

 private:
  std::string_view string() {
    return read_string(cursor_, version_, limits::kStringBytes, path_, "a string");
  }

  GgufValue array(int depth) {
    if (depth >= limits::kArrayDepth) {
      fail("arrays nested too deep: expected at most " + std::to_string(limits::kArrayDepth) +
               " levels",
           cursor_.position());
    }
    GgufValue value{.type = GgufType::Array};
    value.element = type("the element type of an array");
    const std::size_t length = cursor_.position();
    value.count = read_count(cursor_, version_, "the length of an array");
    if (value.count > limits::kArrayElements) {
      fail("array too long: expected at most " + std::to_string(limits::kArrayElements) +
               " elements, got " + std::to_string(value.count),
           length);
    }
    value.data = cursor_.here();
    elements(value, depth);
    value.bytes = static_cast<std::size_t>(cursor_.here() - value.data);
    return value;
  }

  void elements(const GgufValue& array, int depth) {
    if (const std::size_t size = scalar_bytes(array.element); size != 0) {
      cursor_.take(array.count * size, "an array");  // cannot wrap: count is limited
      if (array.element == GgufType::Bool) check_bools(array.count);
    } else if (array.element == GgufType::String) {
      for (std::uint64_t i = 0; i < array.count; ++i) string();
    } else {
      for (std::uint64_t i = 0; i < array.count; ++i) value(GgufType::Array, depth + 1);
    }
  }

  /// Checks the `count` bytes just read.
  void check_bools(std::uint64_t count) {
    const std::byte* const data = cursor_.here() - count;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (data[i] > std::byte{1}) {
        fail("bad bool: expected 0 or 1, got " + std::to_string(std::to_integer<int>(data[i])),
             cursor_.position() - count + i);
      }
    }
  }

  [[noreturn]] void fail(const std::string& message, std::size_t place) {
    throw Error(path_, message, cursor_.at(place));
  }

  Cursor& cursor_;
  std::uint32_t version_;
  std::string_view path_;
};

template <typename T>
std::optional<std::uint64_t> load_uint(const std::byte* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof(T));
  if (value < T{0}) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

}  // namespace

std::string_view name(GgufType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].name;
}
std::size_t scalar_bytes(GgufType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

std::string_view read_string(Cursor& cursor, std::uint32_t version, std::uint64_t limit,
                             std::string_view path, std::string_view what) {
  const std::size_t begin = cursor.position();
  const std::uint64_t length = read_count(cursor, version, what);
  if (length > limit) {
    throw Error(path,
                std::string(what) + " is too long: expected at most " + counted(limit, "byte") +
                    ", got " + std::to_string(length),
                cursor.at(begin));
  }
  return {reinterpret_cast<const char*>(cursor.take(length, what)),
          static_cast<std::size_t>(length)};
}

GgufValue read_value(Cursor& cursor, std::uint32_t version, std::string_view path) {
  ValueReader reader(cursor, version, path);
  const GgufType type = reader.type("the type of a value");
  return reader.value(type, 0);
}

GgufValue read_payload(Cursor& cursor, std::uint32_t version, std::string_view path,
                       GgufType type) {
  return ValueReader(cursor, version, path).value(type, 0);
}

std::optional<std::uint64_t> as_uint(const GgufValue& value) noexcept {
  switch (value.type) {
    case GgufType::U8:
      return load_uint<std::uint8_t>(value.data);
    case GgufType::I8:
      return load_uint<std::int8_t>(value.data);
    case GgufType::U16:
      return load_uint<std::uint16_t>(value.data);
    case GgufType::I16:
      return load_uint<std::int16_t>(value.data);
    case GgufType::U32:
      return load_uint<std::uint32_t>(value.data);
    case GgufType::I32:
      return load_uint<std::int32_t>(value.data);
    case GgufType::U64:
      return load_uint<std::uint64_t>(value.data);
    case GgufType::I64:
      return load_uint<std::int64_t>(value.data);
    default:
      return std::nullopt;
  }
}

}  // namespace cria
