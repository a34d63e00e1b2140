// Text that remembers who wrote it, byte by byte.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cria::jinja {

/// Bytes in runs of one author each: the template's own (trusted: markers written there become
/// control tokens) or a stranger's. Every operation of the interpreter keeps the authors, so that
/// no detour through a filter makes a stranger's text trusted.
class Text {
 public:
  struct Run {
    std::size_t end;  ///< where it ends; it begins where the run before it ends
    bool trusted;
    bool operator==(const Run&) const = default;
  };

  Text() = default;
  Text(std::string bytes, bool trusted);

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  /// Neighbouring runs differ in trust; none is empty.
  [[nodiscard]] std::span<const Run> runs() const noexcept { return runs_; }
  /// Whether the byte's author is trusted; past the end: whether the last one's is (an empty
  /// text's: yes).
  [[nodiscard]] bool trusted_at(std::size_t at) const;
  /// Bytes begin to end - 1.
  [[nodiscard]] Text part(std::size_t begin, std::size_t end) const;
  /// The same bytes, all of them trusted or not.
  [[nodiscard]] Text as(bool trusted) const { return {bytes_, trusted}; }

  void append(const Text& more) { append(more, 0, more.size()); }
  void append(const Text& more, std::size_t begin, std::size_t end);
  void append(std::string_view bytes, bool trusted);

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace cria::jinja
