// The finished matrices of a calibration on disk, from which a run that was killed continues.
//
//   magic "CRIACALI" · u32 version · u32 tensors · u64 identity · u64 bytes of all blocks ·
//   blocks of the plan's tensors, from byte 4096 on ·
//   for each finished matrix: u64 tensor · u64 first row · u64 rows · u64 checksum
//   (little-endian)
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/quantize/plan.h"

namespace cria {

class CalibrationState {
 public:
  /// Opens the state at `path`, or begins it with all of its disk space reserved. identity: a hash
  /// of all that the blocks depend on. Throws Error for a state of another run, one that another
  /// process uses, or a full disk.
  CalibrationState(const QuantizePlan& plan, const std::string& path, std::uint64_t identity);
  /// The same without a name: it goes with the process. directory: "" for the present one.
  static CalibrationState unnamed(const QuantizePlan& plan, const std::string& directory);
  ~CalibrationState();
  CalibrationState(CalibrationState&& other) noexcept;
  CalibrationState(const CalibrationState&) = delete;
  CalibrationState& operator=(const CalibrationState&) = delete;

  /// Number of finished matrices.
  [[nodiscard]] std::size_t finished() const { return finished_.size(); }
  [[nodiscard]] bool has(std::string_view tensor, std::uint64_t first_row) const;
  /// Writes blocks of rows from `row` on. Throws Error if the disk refuses.
  void write(std::string_view tensor, std::uint64_t row, std::span<const std::byte> blocks);
  /// From now on a matrix is in the state: all its rows have been written.
  void finish(std::string_view tensor, std::uint64_t first_row, std::uint64_t rows);
  /// The blocks of rows from `row` on, mapped; valid as long as this.
  [[nodiscard]] std::span<const std::byte> rows(std::string_view tensor, std::uint64_t row,
                                                std::uint64_t n) const;
  /// All blocks of a tensor; empty unless all its rows are finished.
  [[nodiscard]] std::span<const std::byte> tensor(std::string_view tensor) const;

 private:
  struct Place {
    std::uint64_t index, begin, row_bytes, rows, finished;
  };
  struct Matrix {
    std::uint64_t tensor, first_row, rows, checksum;
  };
  CalibrationState() = default;
  void assign_places(const QuantizePlan& plan);
  void begin(std::uint64_t identity);
  void read();
  void map();
  [[nodiscard]] std::uint64_t checksum(const Matrix& matrix, const Place& place) const;
  const Place& place(std::string_view tensor) const { return places_.find(tensor)->second; }
  void add(const Matrix& matrix, Place& place);
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  int file_ = -1;
  const std::byte* mapped_ = nullptr;
  std::uint64_t end_ = 0;      // end of all blocks in the file
  std::uint64_t written_ = 0;  // end of the list of finished matrices
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> finished_;  // rows by matrix
};

}  // namespace cria
