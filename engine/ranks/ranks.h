// Processes ("ranks") that compute one model together, and how work is divided among them. mpi/
// connects them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// Time that a rank waits for others before it ends all of them.
enum class Timeout {
  Usual,    ///< for a step of the computation
  Loading,  ///< for reading a model, possibly from a slow disk
  Endless,  ///< for the next command
};

/// Max allgathers in flight.
inline constexpr unsigned kMaxGathers = 2;

/// All ranks must call broadcast() and gather() in the same order with the same sizes, from one
/// thread at a time. On a timeout or a lost connection, these end all processes with a message that
/// names the rank.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// 0 … size()-1. Rank 0 runs the command; the others follow it.
  [[nodiscard]] virtual unsigned rank() const = 0;
  [[nodiscard]] virtual unsigned size() const = 0;
  /// Name of this rank's host, and the number of ranks (including this one) that share its
  /// processors.
  [[nodiscard]] virtual std::string host() const = 0;
  [[nodiscard]] virtual unsigned neighbours() const = 0;

  /// Broadcasts `bytes` from rank 0.
  virtual void broadcast(std::span<std::byte> bytes, Timeout timeout) = 0;
  /// Allgather: rank r contributes bytes [begin[r], begin[r + 1]) of data. begin: [size() + 1].
  void gather(std::byte* data, std::span<const std::size_t> begin, Timeout timeout) {
    begin_gather(data, begin);
    end_gather(timeout);
  }
  /// gather() in two steps. In between, data (not begin) must stay in place, and no other call than
  /// up to kMaxGathers gathers is allowed.
  virtual void begin_gather(std::byte* data, std::span<const std::size_t> begin) = 0;
  /// Waits for the gather that was begun first.
  virtual void end_gather(Timeout timeout) = 0;
  /// Sets Timeout::Usual.
  virtual void set_timeout(double seconds) = 0;
};

/// Share of the work of each rank, in proportion, such as {2, 1, 1}. Not all are 0.
using Shares = std::vector<unsigned>;

/// Parses a list of `ranks` numbers from 1 to 1000, such as "2,1,1". Throws Error.
Shares parse_shares(std::string_view text, std::size_t ranks);

/// Divides n units: rank r gets [bounds[r], bounds[r + 1]), where bounds are multiples of
/// `together` (or n). Some ranks get none if there are few.
std::vector<std::size_t> divide(std::size_t n, std::size_t together,
                                std::span<const unsigned> shares);

/// The module that connects ranks by MPI. Only a program started by mpirun loads it: others need no
/// MPI.
inline constexpr const char* kMpiModule = "cria_mpi.so";
inline constexpr const char* kMpiEntry = "cria_join_mpi";
/// Its entry: joins the other processes, once per process; returns null and a reason of at most
/// `size` bytes if that fails. All ranks must delete the result together, at the end.
using JoinMpi = Ranks* (*)(char* reason, std::size_t size);

}  // namespace cria
