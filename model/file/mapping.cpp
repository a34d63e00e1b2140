#include "model/file/mapping.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/error.h"
#include "model/file/utf8.h"
#include "model/plural.h"

namespace cria {

namespace {

struct Magic {
  std::string_view start;
  std::string_view meaning;
};

constexpr Magic kMagics[] = {
    {"FUGG", "a GGUF file with swapped bytes (big-endian)"},
    {"lmgg", "a GGML file (before GGUF): convert the model again"},
    {"fmgg", "a GGMF file (before GGUF): convert the model again"},
    {"tjgg", "a GGJT file (before GGUF): convert the model again"},
    {"algg", "a GGLA adapter (before GGUF): convert it again"},
    {"version https://git-lfs", "a Git LFS pointer: fetch the file itself with `git lfs pull`"},
    {"PK\x03\x04", "a zip archive (a PyTorch checkpoint?)"},
    {"\x1f\x8b", "a gzip archive: unpack it first"},
    {"\xfd"
     "7zXZ",
     "an xz archive: unpack it first"},
    {"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"},
    {"\x89HDF", "an HDF5 file"},
    {"%PDF", "a PDF document"},
};

bool is_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const std::string begin = lower_case(text.substr(0, 16));
  return begin.starts_with("<!doctype") || begin.starts_with("<html");
}

// safetensors: the length of a JSON header in eight bytes, then the header.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text[8] == '{' && text[7] == 0 && text[6] == 0;
}

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "the bytes";
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    out += {' ', digits[value >> 4], digits[value & 15]};
  }
  return out;
}

}  // namespace

std::string describe_magic(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 256));
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.start)) return std::string(magic.meaning);
  }
  if (is_html(text)) return "an HTML page (a failed download?)";
  if (is_safetensors(text)) return "a safetensors file: convert it with `cria convert`";
  return hexadecimal(text.substr(0, 4));
}

namespace {

struct Descriptor {
  int fd;
  explicit Descriptor(int value) : fd(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error system_error(const std::string& path, std::string_view what) {
  return Error(path, std::string(what) + ": " + std::strerror(errno));
}

// A pipe or a device would block or has no size, so anything but a regular file is refused.
std::size_t regular_size(int fd, const std::string& path, std::string_view expected) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) throw system_error(path, "cannot stat");
  if (S_ISDIR(info.st_mode)) throw Error(path, "is a directory: expected " + std::string(expected));
  if (!S_ISREG(info.st_mode))
    throw Error(path,
                "is not a regular file (a pipe or device): expected " + std::string(expected));
  return static_cast<std::size_t>(info.st_size);
}

void read_all(int fd, std::byte* out, std::size_t size, const std::string& path) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::pread(fd, out + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error(path, "cannot read");
    if (n == 0) {
      throw Error(path, "file shrank while it was read: expected " + counted(size, "byte") +
                            ", got " + std::to_string(done));
    }
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace

// Delegating to the default constructor makes the destructor run, and so unmap, when reading
// throws.
Mapping::Mapping(const std::string& path, MapMode mode, std::string_view expected) : Mapping() {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) throw system_error(path, "cannot open");
  const std::size_t size = regular_size(file.fd, path, expected);
  if (size == 0) return;

  const bool copy = mode == MapMode::Read;
  void* const address =
      copy ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
           : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED)
    throw system_error(path, copy ? "cannot allocate memory" : "cannot map");
  data_ = static_cast<std::byte*>(address);
  size_ = size;
  copied_ = copy;
  // Advice: fewer TLB misses where granted. What is mapped is read from the disk in huge pages
  // then, in whatever order it is touched; what the page cache holds already stays as it is.
  ::madvise(data_, size_, MADV_HUGEPAGE);
  if (copy) {
    read_all(file.fd, data_, size_, path);
    ::mprotect(data_, size_, PROT_READ);
  }
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      copied_(other.copied_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(copied_, other.copied_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

bool Mapping::lock() const noexcept { return size_ == 0 || ::mlock(data_, size_) == 0; }

namespace {

// The advice for the whole pages that a part covers, or for all that it touches.
void advise(std::span<const std::byte> part, int advice, bool all_touched) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = (all_touched ? address : address + page - 1) / page * page;
  const std::uintptr_t end = (address + part.size()) / page * page + (all_touched ? page : 0);
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void Mapping::prefetch(std::span<const std::byte> part) const noexcept {
  if (!part.empty() && !copied_) advise(part, MADV_WILLNEED, true);
}

void Mapping::release(std::span<const std::byte> part) const noexcept {
  if (!copied_) advise(part, MADV_DONTNEED, false);
}

}  // namespace cria
