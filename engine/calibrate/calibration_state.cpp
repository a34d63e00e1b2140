#include "engine/calibrate/calibration_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "model/error.h"
#include "model/file/binary_file.h"

namespace cria {
namespace {

constexpr char kStateMagic[8] = {'C', 'R', 'I', 'A', 'C', 'A', 'L', 'I'};
constexpr std::uint32_t kStateVersion = 1;
constexpr std::uint64_t kBlocksBegin = 4096;

struct StateHeader {
  char magic[8];
  std::uint32_t version, tensors;
  std::uint64_t identity, bytes;
};
static_assert(sizeof(StateHeader) == 32);

bool write_at(int file, std::uint64_t at, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  while (size > 0) {
    const ssize_t n = ::pwrite(file, bytes, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n, at += static_cast<std::uint64_t>(n), size -= static_cast<std::size_t>(n);
  }
  return true;
}

template <class T>
bool read_at(int file, std::uint64_t at, T& to) {
  return ::pread(file, &to, sizeof to, static_cast<off_t>(at)) == ssize_t{sizeof to};
}

}  // namespace

CalibrationState::CalibrationState(const QuantizePlan& plan, const std::string& path,
                                   std::uint64_t identity)
    : CalibrationState() {
  path_ = path;
  assign_places(plan);
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot write");
  struct stat status = {};
  if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode))
    throw Error(path_, "cannot write: not a regular file");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) throw Error(path_, "another process uses this state");
  begin(identity);
  map();
  read();
}

CalibrationState CalibrationState::unnamed(const QuantizePlan& plan, const std::string& directory) {
  CalibrationState state;
  state.path_ = (directory.empty() ? "." : directory) + "/cria-calibration-XXXXXX";
  state.assign_places(plan);
  state.file_ = ::mkostemp(state.path_.data(), O_CLOEXEC);
  if (state.file_ < 0) state.fail("cannot write");
  ::unlink(state.path_.c_str());
  state.begin(0);
  state.map();
  return state;
}

CalibrationState::CalibrationState(CalibrationState&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      end_(other.end_),
      written_(other.written_),
      places_(std::move(other.places_)),
      finished_(std::move(other.finished_)) {}

CalibrationState::~CalibrationState() {
  if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), end_);
  if (file_ >= 0) ::close(file_);
}

void CalibrationState::fail(const std::string& what) const {
  throw Error(path_, what + ": " + std::strerror(errno));
}

void CalibrationState::assign_places(const QuantizePlan& plan) {
  std::uint64_t index = 0;
  end_ = kBlocksBegin;
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.copied()) continue;
    const std::uint64_t row_bytes = dtype_info(tensor.type).row_bytes(tensor.source->cols());
    places_.emplace(tensor.source->name, Place{index++, end_, row_bytes, tensor.source->rows(), 0});
    end_ += row_bytes * tensor.source->rows();
  }
  written_ = end_;
}

// Reserves the disk's space: a full disk shows before hours of work.
void CalibrationState::begin(std::uint64_t identity) {
  StateHeader header{
      {}, kStateVersion, static_cast<std::uint32_t>(places_.size()), identity, end_ - kBlocksBegin};
  std::copy(std::begin(kStateMagic), std::end(kStateMagic), header.magic);
  StateHeader found{};
  if (::lseek(file_, 0, SEEK_END) == 0) {
    if (!write_at(file_, 0, &header, sizeof header)) fail("cannot write");
  } else if (!read_at(file_, 0, found) ||
             std::memcmp(found.magic, kStateMagic, sizeof kStateMagic) != 0) {
    throw Error(path_, "not a state of a calibration; name another file");
  } else if (std::memcmp(&found, &header, sizeof header) != 0) {
    throw Error(path_,
                "the state of a different run: model, texts, types or version differ; delete it or "
                "name another file");
  }
  errno = ::posix_fallocate(file_, 0, static_cast<off_t>(end_));
  if (errno != 0) fail("cannot reserve " + std::to_string(end_) + " bytes");
}

void CalibrationState::map() {
  void* const mapped = ::mmap(nullptr, end_, PROT_READ, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) fail("cannot map");
  mapped_ = static_cast<const std::byte*>(mapped);
}

// Ignores all entries behind a damaged one.
void CalibrationState::read() {
  std::vector<Place*> places(places_.size());
  for (auto& [name, place] : places_) places[place.index] = &place;
  Matrix matrix{};
  while (read_at(file_, written_, matrix)) {
    if (matrix.tensor >= places.size()) return;
    Place& place = *places[matrix.tensor];
    if (matrix.first_row > place.rows || matrix.rows > place.rows - matrix.first_row) return;
    if (matrix.checksum != checksum(matrix, place)) return;
    add(matrix, place);
  }
}

std::uint64_t CalibrationState::checksum(const Matrix& matrix, const Place& place) const {
  Hash hash;
  hash.add_number(matrix.tensor);
  hash.add_number(matrix.first_row);
  hash.add_number(matrix.rows);
  hash.add(mapped_ + place.begin + matrix.first_row * place.row_bytes,
           matrix.rows * place.row_bytes);
  return hash.value();
}

void CalibrationState::add(const Matrix& matrix, Place& place) {
  written_ += sizeof matrix;
  if (finished_.emplace(std::pair(matrix.tensor, matrix.first_row), matrix.rows).second)
    place.finished += matrix.rows;
}

bool CalibrationState::has(std::string_view tensor, std::uint64_t first_row) const {
  return finished_.contains({place(tensor).index, first_row});
}

void CalibrationState::write(std::string_view tensor, std::uint64_t row,
                             std::span<const std::byte> blocks) {
  const Place& to = place(tensor);
  if (!write_at(file_, to.begin + row * to.row_bytes, blocks.data(), blocks.size()))
    fail("cannot write");
}

void CalibrationState::finish(std::string_view tensor, std::uint64_t first_row,
                              std::uint64_t rows) {
  Place& to = places_.find(tensor)->second;
  Matrix matrix{to.index, first_row, rows, 0};
  matrix.checksum = checksum(matrix, to);
  if (!write_at(file_, written_, &matrix, sizeof matrix)) fail("cannot write");
  add(matrix, to);
}

std::span<const std::byte> CalibrationState::rows(std::string_view tensor, std::uint64_t row,
                                                  std::uint64_t n) const {
  const Place& from = place(tensor);
  return {mapped_ + from.begin + row * from.row_bytes, n * from.row_bytes};
}

std::span<const std::byte> CalibrationState::tensor(std::string_view tensor) const {
  const auto found = places_.find(tensor);
  if (found == places_.end() || found->second.finished != found->second.rows) return {};
  return rows(tensor, 0, found->second.rows);
}

}  // namespace cria
