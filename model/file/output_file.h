// A file that is either complete or not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// The bytes go to a file without a name in the target's directory (one with a name,
/// "TARGET.part-PID", where the system has no such files), which finish() puts in the target's
/// place. Without finish() it is gone with the object, and the target stays as it was. A target
/// that is a symbolic link keeps the link and replaces its file.
///
/// The system gets the bytes in pieces of kPiece at multiples of kPiece, because Linux keeps what
/// it is given as a whole in its page cache as a whole: so whoever maps the file soon after gets
/// huge pages (measured: bench/processors/zen5.md).
class OutputFile {
 public:
  static constexpr std::size_t kPiece = std::size_t{2} << 20;  ///< a huge page

  /// bytes: size of the whole file, if known: reserved on the disk. Throws Error if the disk has
  /// not so much space, and for a target that cannot be replaced (a directory, a device, a pipe).
  explicit OutputFile(std::string path, std::uint64_t bytes = 0);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throw Error if the disk refuses.
  void write(const void* data, std::size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// The bytes are on the disk when it returns; the target is as it was. Nothing may be written
  /// after it.
  void complete();
  /// After complete(): puts the file in the target's place.
  void replace();
  void finish() { complete(), replace(); }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void find_target();
  int open_temporary();
  void write_out();
  void give_name();
  void discard() noexcept;
  [[noreturn]] void fail();

  std::string path_, target_, directory_;
  std::string temporary_;  // "" while the file has no name
  int file_ = -1;
  std::vector<std::byte> piece_;  // what is not written yet: less than kPiece
};

/// Throws Error if the target is this file, by whatever name or link: what was read is not to be
/// replaced.
void require_other_file(const std::string& input, const std::string& target);
/// Throws Error, of path, if the disk of an existing directory has not so much space left. What is
/// not known passes.
void require_space(const std::string& directory, std::uint64_t bytes, const std::string& path);
/// Throws Error as an OutputFile of this path: before hours of work on what it is for.
void require_writable(const std::string& target);

}  // namespace cria
