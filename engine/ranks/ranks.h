// The processes ("ranks") that compute one model together, without a word of what connects them:
// mpi/ does it between machines.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace cria {

/// How long a rank waits for another one before all are ended.
enum class Timeout {
  Usual,    ///< as long as a step of the computation may take
  Loading,  ///< a model is read, from a slow disk perhaps
  Endless,  ///< nobody knows when there is something to do again
};

/// So many gatherings may be under way at once.
inline constexpr unsigned kMaxGathers = 2;

/// All ranks call broadcast() and gather() in the same order, with the same sizes. From one thread
/// at a time. Where a rank does not come in time, or the connection is lost, these end all
/// processes with a line that names it.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// 0 … size()-1. 0 runs the command; the others follow it.
  [[nodiscard]] virtual unsigned rank() const = 0;
  [[nodiscard]] virtual unsigned size() const = 0;
  /// The name of this rank's machine, and how many ranks run there on the same processors as this
  /// one (itself among them).
  [[nodiscard]] virtual std::string host() const = 0;
  [[nodiscard]] virtual unsigned neighbours() const = 0;

  /// The bytes of rank 0 become everybody's.
  virtual void broadcast(std::span<std::byte> bytes, Timeout patience) = 0;
  /// Bytes [begin[r], begin[r + 1]) of rank r become everybody's. begin: [size() + 1], in bytes
  /// from data.
  void gather(std::byte* data, std::span<const std::size_t> begin, Timeout patience) {
    begin_gather(data, begin);
    end_gather(patience);
  }
  /// gather() in two steps. Until the second, data (not begin) stays and is not touched, and
  /// nothing but kMaxGathers gatherings at most is under way.
  virtual void begin_gather(std::byte* data, std::span<const std::size_t> begin) = 0;
  /// Waits for the one that was begun first.
  virtual void end_gather(Timeout patience) = 0;
  /// What Patience::Usual means from now on.
  virtual void set_timeout(double seconds) = 0;
};

}  // namespace cria
