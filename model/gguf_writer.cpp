#include "model/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <type_traits>

#include "model/gguf_parser.h"
#include "model/magic.h"

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

template <typename T>
GgufData data_at(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

}  // namespace

GgufData copy_value(const GgufFile& file, const GgufValue& value) {
  switch (value.type) {
    case GgufType::U8:
      return data_at<std::uint8_t>(value.data);
    case GgufType::I8:
      return data_at<std::int8_t>(value.data);
    case GgufType::U16:
      return data_at<std::uint16_t>(value.data);
    case GgufType::I16:
      return data_at<std::int16_t>(value.data);
    case GgufType::U32:
      return data_at<std::uint32_t>(value.data);
    case GgufType::I32:
      return data_at<std::int32_t>(value.data);
    case GgufType::F32:
      return data_at<float>(value.data);
    case GgufType::Bool:
      return data_at<bool>(value.data);
    case GgufType::U64:
      return data_at<std::uint64_t>(value.data);
    case GgufType::I64:
      return data_at<std::int64_t>(value.data);
    case GgufType::F64:
      return data_at<double>(value.data);
    case GgufType::String:
      return std::string(reinterpret_cast<const char*>(value.data), value.bytes);
    case GgufType::Array:
      break;
  }
  GgufArray array{.element = value.element, .values = {}, .copied = value.count};
  if (file.version() > 1 || scalar_bytes(value.element) != 0) {
    array.payload.assign(reinterpret_cast<const char*>(value.data), value.bytes);
  } else {  // version 1 has shorter lengths
    file.visit_elements(
        value, [&](const GgufValue& element) { append_value(array.payload, copy_value(file, element)); });
  }
  return array;
}

void require_other_file(const GgufFile& input, const std::string& target) {
  for (const std::string& path : input.paths()) {
    std::error_code error;  // a target that is not there yet is another file
    if (std::filesystem::equivalent(path, target, error))
      throw Error(target, "cannot write: it is the input itself (" + path + ")");
  }
}

GgufWriter::GgufWriter(std::string path, std::uint64_t alignment)
    : path_(std::move(path)), alignment_(alignment) {
  if (alignment_ != kDefaultAlignment) set("general.alignment", static_cast<std::uint32_t>(alignment_));
}

GgufWriter::~GgufWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void GgufWriter::set(std::string_view key, GgufData value) {
  const auto [found, is_new] = key_index_.emplace(key, keys_.size());
  if (is_new)
    keys_.emplace_back(key, std::move(value));
  else
    keys_[found->second].second = std::move(value);
}

void GgufWriter::declare(std::string_view name, DType dtype, std::vector<std::uint64_t> shape) {
  assert(file_ == nullptr && !shape.empty());
  TensorView view{.name = name, .dtype = dtype, .shape = shape};
  const std::uint32_t block = dtype_info(dtype).block_values;
  if (view.cols() % block != 0) {
    throw Error(path_,
                "row length does not fit the type: expected a multiple of " + std::to_string(block) +
                    ", got " + std::to_string(view.cols()),
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

std::uint64_t GgufWriter::file_bytes() const {
  std::uint64_t bytes = 0;
  header([&](const std::string& part) { bytes += part.size(); });
  bytes = align(bytes, alignment_);
  for (const Declared& tensor : tensors_) bytes += align(tensor.bytes, alignment_);
  return bytes;
}

// A link's file is replaced, not the link; what is no regular file (a device, a directory) cannot be.
void GgufWriter::find_target() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const fs::path real = fs::weakly_canonical(path_, error); !error && fs::is_symlink(path_, error))
    target_ = real.string();
  else
    target_ = path_;
  if (fs::is_directory(target_, error)) throw Error(path_, "cannot write: it is a directory");
  if (fs::exists(target_, error) && !fs::is_regular_file(target_, error))
    throw Error(path_, "cannot write: not a regular file");
  directory_ = fs::path(target_).parent_path().string();
  if (directory_.empty()) directory_ = ".";
}

void GgufWriter::require_space(std::uint64_t bytes) const {
  struct statvfs disk = {};
  if (::statvfs(directory_.c_str(), &disk) != 0 || disk.f_blocks == 0)
    return;  // not known: writing will tell
  const std::uint64_t available = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (bytes > available)
    throw Error(path_, "not enough space on the disk: expected " + std::to_string(bytes) + " bytes, got " +
                           std::to_string(available));
}

// A file without a name, where the system has such: whatever ends the process, nothing is left behind.
int GgufWriter::open_temporary() {
  temporary_.clear();
  if (::access("/proc/self/fd", X_OK) == 0) {
    const int fd = ::open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
  }
  temporary_ = target_ + ".part-" + std::to_string(::getpid());
  ::unlink(temporary_.c_str());  // left by a process that was killed and had our number
  return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

void GgufWriter::begin() {
  assert(file_ == nullptr);
  find_target();
  require_space(file_bytes());
  const int fd = open_temporary();
  if (fd < 0) fail("cannot write");
  file_ = ::fdopen(fd, "wb");
  // The disk keeps its space for the whole file from now on, if it knows how to.
  if (::fallocate(fd, 0, 0, static_cast<off_t>(file_bytes())) != 0 && errno == ENOSPC) fail("cannot write");
  std::uint64_t written = 0;
  header([&](const std::string& part) {
    put(part.data(), part.size());
    written += part.size();
  });
  pad(written);
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  assert(file_ != nullptr && current_ < tensors_.size());
  const std::uint64_t size = tensors_[current_].bytes;
  assert(bytes.size() <= size - in_current_);
  put(bytes.data(), bytes.size());
  in_current_ += bytes.size();
  if (in_current_ < size) return;
  pad(size);
  ++current_;
  in_current_ = 0;
}

void GgufWriter::finish() {
  assert(file_ != nullptr);
  if (current_ != tensors_.size()) throw Error(path_, "data is missing", "tensor " + tensors_[current_].name);
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail("cannot write");
  if (temporary_.empty()) give_name();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot write");
  std::fclose(std::exchange(file_, nullptr));
}

// A link cannot replace a file, so the nameless one is linked under a name beside it first.
void GgufWriter::give_name() {
  const std::string name = target_ + ".part-" + std::to_string(::getpid());
  const std::string open_file = "/proc/self/fd/" + std::to_string(::fileno(file_));
  ::unlink(name.c_str());
  if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail("cannot write");
  temporary_ = name;
}

void GgufWriter::put(const void* data, std::size_t size) {
  if (size != 0 && std::fwrite(data, 1, size, file_) != size) fail("cannot write");
}

void GgufWriter::pad(std::uint64_t written) {
  const std::string zeros(align(written, alignment_) - written, '\0');
  put(zeros.data(), zeros.size());
}

void GgufWriter::fail(std::string_view what) const {
  throw Error(path_, std::string(what) + ": " + std::strerror(errno));
}

}  // namespace cria
