#include "model/gguf/parser.h"

#include <bit>

#include "model/file/magic.h"
#include "model/file/utf8.h"
#include "model/limits.h"

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

}  // namespace cria
