// Sessions on disk: tokens, and the keys and values of their positions.
//
//   magic "CRIASESS" · u32 version · u32 KV type · u64 fingerprint of the model · u64 n · n token ids (i32) ·
//   the bytes of KvCache::for_used_bytes(n) · u64 checksum of all before it           (little-endian)
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "engine/session_state.h"

namespace cria {
namespace {

constexpr char kMagic[8] = {'C', 'R', 'I', 'A', 'S', 'E', 'S', 'S'};
constexpr std::uint32_t kVersion = 1;

// FNV-1a over words of eight bytes (the last one padded with zeros): finds damage, resists nobody.
class Hash {
 public:
  void add(const void* data, std::size_t size) {
    const char* bytes = static_cast<const char*>(data);
    for (; size > 0; bytes += kWord, size -= std::min(size, kWord)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, std::min(size, kWord));
      value_ = (value_ ^ word) * 0x100000001B3;
      value_ ^= value_ >> 32;  // high bits would otherwise never reach low ones
    }
  }
  template <class T>
  void add_number(T number) {
    add(&number, sizeof number);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  static constexpr std::size_t kWord = 8;
  std::uint64_t value_ = 0xCBF29CE484222325;
};

// Names, types and shapes of all tensors, and a piece of each one's data: fine-tuned siblings differ.
std::uint64_t fingerprint(const Model& model) {
  Hash hash;
  for (const TensorView& tensor : model.file().tensors()) {
    hash.add(tensor.name.data(), tensor.name.size());
    hash.add_number(static_cast<std::uint64_t>(tensor.dtype));
    for (const std::uint64_t n : tensor.shape) hash.add_number(n);
    hash.add(tensor.data, std::min<std::size_t>(tensor.bytes, 256));
  }
  return hash.value();
}

struct Header {
  char magic[8];
  std::uint32_t version, kv_type;
  std::uint64_t model, n_tokens;
};
static_assert(sizeof(Header) == 32);

Header header_of(const Session::State& state) {
  Header header{{},
                kVersion,
                static_cast<std::uint32_t>(state.plan.options.kv_type),
                fingerprint(state.model),
                state.tokens.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  return header;
}

// Bytes of a file with n tokens, but for the checksum.
std::uint64_t content_bytes(const Session::State& state, std::uint64_t n) {
  std::uint64_t bytes = sizeof(Header) + n * sizeof(TokenId);
  state.cache.for_used_bytes(n, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

// Removes a file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const std::string& target)
      : target_(target), path_(target + "." + std::to_string(getpid()) + ".tmp") {}
  ~Temporary() {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void rename() {
    if (std::rename(path_.c_str(), target_.c_str()) != 0)
      throw Error(target_, std::string("cannot write: ") + std::strerror(errno));
    path_.clear();
  }

 private:
  std::string target_, path_;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), in_(path, std::ios::binary | std::ios::ate) {
    if (!in_) throw Error(path, std::string("cannot open: ") + std::strerror(errno));
    const std::streamoff end = in_.tellg();
    if (end < 0) throw Error(path, "cannot read: not a regular file");
    size_ = static_cast<std::uint64_t>(end);
    in_.seekg(0);
  }
  void read(void* to, std::size_t size) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
    if (!in_) throw Error(path_, "cannot read: file ends too early");
    hash_.add(to, size);
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_.value(); }

 private:
  std::string path_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  Hash hash_;
};

void expect(bool good, const std::string& path, std::string_view what, std::string_view where) {
  if (!good) throw Error(path, what, where);
}

void check_header(const Header& header, const Session::State& state, const std::string& path,
                  std::uint64_t size) {
  const Header own = header_of(state);
  const auto expected_got = [](std::string_view what, std::uint64_t expected, std::uint64_t got) {
    return std::string(what) + ": expected " + std::to_string(expected) + ", got " + std::to_string(got);
  };
  expect(std::memcmp(header.magic, own.magic, sizeof own.magic) == 0, path, "not a session file of cria",
         "at byte 0");
  expect(header.version == own.version, path, expected_got("version", own.version, header.version),
         "at byte 8");
  expect(header.kv_type == own.kv_type, path,
         expected_got("saved with another KV type", own.kv_type, header.kv_type), "at byte 12");
  expect(header.model == own.model, path, "saved with another model than " + state.model.file().path(),
         "at byte 16");
  expect(header.n_tokens <= state.plan.options.n_ctx, path,
         "does not fit into the context: expected at most " + std::to_string(state.plan.options.n_ctx) +
             " tokens, got " + std::to_string(header.n_tokens),
         "at byte 24");
  const std::uint64_t wanted = content_bytes(state, header.n_tokens) + sizeof(std::uint64_t);
  expect(size == wanted, path, expected_got("wrong size in bytes", wanted, size), "");
}

}  // namespace

void Session::save(const std::string& path) const {
  Temporary file(path);
  std::ofstream out(file.path(), std::ios::binary);
  Hash hash;
  const auto put = [&](const void* data, std::size_t size) {
    hash.add(data, size);
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  };
  const Header header = header_of(*state_);
  put(&header, sizeof header);
  put(state_->tokens.data(), state_->tokens.size() * sizeof(TokenId));
  state_->cache.for_used_bytes(state_->tokens.size(), put);
  const std::uint64_t sum = hash.value();
  out.write(reinterpret_cast<const char*>(&sum), sizeof sum);
  out.close();
  if (!out) throw Error(path, std::string("cannot write: ") + std::strerror(errno));
  file.rename();
}

void Session::load(const std::string& path) {
  Reader in(path);
  Header header{};
  expect(in.size() >= sizeof header, path, "not a session file of cria: too short", "");
  in.read(&header, sizeof header);
  check_header(header, *state_, path, in.size());
  state_->tokens.clear();  // from here on the cache is overwritten
  std::vector<TokenId> tokens(header.n_tokens);
  in.read(tokens.data(), tokens.size() * sizeof(TokenId));
  state_->cache.for_used_bytes(tokens.size(), [&](std::byte* to, std::size_t size) { in.read(to, size); });
  const std::uint64_t computed = in.hash();
  std::uint64_t stored = 0;
  in.read(&stored, sizeof stored);
  expect(stored == computed, path, "damaged: wrong checksum", "");
  state_->check_tokens(tokens);
  state_->tokens.assign(tokens.begin(), tokens.end());
}

}  // namespace cria
