#include "model/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace cria {
namespace {

constexpr std::size_t kAlignment = 8;  // of the data within the file

std::string header(const std::vector<SafetensorsDeclaration>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const SafetensorsDeclaration& tensor : tensors) {
    json[tensor.name] = {
        {"dtype", tensor.type->name}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text.data();
}

}  // namespace

std::uint64_t SafetensorsDeclaration::bytes() const {
  std::uint64_t bytes = type->bytes;
  for (const std::uint64_t n : shape) bytes *= n;
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<SafetensorsDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), temporary_(path_ + ".part-" + std::to_string(::getpid())) {
  for (const SafetensorsDeclaration& tensor : tensors) expected_ += tensor.bytes();
  ::unlink(temporary_.c_str());  // left by a process that was killed and had our number
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) fail();
  file_ = ::fdopen(fd, "wb");
  const std::string text = header(tensors, metadata);
  const std::uint64_t length = text.size();
  if (std::fwrite(&length, sizeof length, 1, file_) != 1 ||
      std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    const int reason = errno;  // no destructor runs for what was not constructed
    std::fclose(file_);
    ::unlink(temporary_.c_str());
    errno = reason;
    fail();
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  assert(file_ != nullptr && bytes.size() <= expected_ - written_);
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail();
  written_ += bytes.size();
}

void SafetensorsWriter::finish() {
  assert(file_ != nullptr);
  if (written_ != expected_)
    throw Error(path_, "data is missing: expected " + std::to_string(expected_) + " bytes, got " +
                           std::to_string(written_));
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
  const int closed = std::fclose(std::exchange(file_, nullptr));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail();
  }
}

void SafetensorsWriter::fail() const {
  throw Error(path_, std::string("cannot write: ") + std::strerror(errno));
}

std::vector<SafetensorsShard> plan_shards(std::vector<SafetensorsDeclaration> tensors,
                                          std::uint64_t max_bytes) {
  std::vector<SafetensorsShard> shards;
  std::uint64_t used = 0;
  for (SafetensorsDeclaration& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes();
    if (shards.empty() || used + bytes > max_bytes) {
      shards.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shard_name(i, shards.size());
    std::stable_sort(shards[i].tensors.begin(), shards[i].tensors.end(),
                     [](const auto& a, const auto& b) { return a.type->bytes > b.type->bytes; });
  }
  return shards;
}

std::string shard_index(const std::vector<SafetensorsShard>& shards) {
  std::map<std::string, std::string> files;
  std::uint64_t bytes = 0;
  for (const SafetensorsShard& shard : shards) {
    for (const SafetensorsDeclaration& tensor : shard.tensors) {
      files[tensor.name] = shard.file;
      bytes += tensor.bytes();
    }
  }
  return nlohmann::ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", files}}.dump(2) + "\n";
}

}  // namespace cria
