// This machine: processor, caches, memory, instruction sets; and its limits: read rate, arithmetic
// rates, and the time of a pass over N tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/execute/machine.h"
#include "engine/model.h"
#include "kernels/kernels.h"
#include "model/file/json.h"
#include "model/gguf/gguf.h"

namespace cria::tools {

struct CacheInfo {
  unsigned level = 0;
  std::string type;         ///< "Data", "Instruction", "Unified"
  std::uint64_t bytes = 0;  ///< size of one cache
};

struct MachineInfo {
  std::string cpu;                ///< the model's name; "unknown CPU"
  unsigned cores = 0;             ///< physical ones that this process may use
  unsigned processors = 0;        ///< logical ones that are online
  std::vector<CacheInfo> caches;  ///< the first processor's
  std::uint64_t memory = 0;       ///< bytes that this process may have
  std::uint64_t available = 0;    ///< bytes that the system and the cgroups would give now
};

/// Reads /proc, /sys and cgroups; unknown values stay empty.
MachineInfo this_machine(const CgroupTree& tree = {});

/// The processor's name.
std::string cpu_name();

/// "NAME, 2 cores, avx2": what speeds depend on, with the cores and the instruction set that this
/// process may use. Throws UnknownInstructionSet.
std::string machine_label();

/// measure: with the roofline of all physical cores, which takes some seconds.
std::string cpu_text(bool measure);
Json cpu_json(bool measure);

/// 0: the kernels have no instruction for it (scalar: none but the read).
struct Roofline {
  double read_gbytes;   ///< streaming read from memory, GB/s, all threads together
  double int8_gmacs;    ///< int8 dot products by vector instructions out of registers, GMAC/s, all
                        ///< threads
  double matrix_gmacs;  ///< the same by a matrix unit (AMX)
  double float_gmacs;   ///< float32 FMA out of registers, GMAC/s, all threads
  double bf16_gmacs;    ///< dot products of bfloat16 pairs

  /// The peak rate for prompts with a weight type.
  [[nodiscard]] double peak(const DTypeInfo& type) const {
    if (type.dot == DotClass::FloatPairs && bf16_gmacs > 0) return bf16_gmacs;
    return type.is_float() ? float_gmacs : int8_gmacs;
  }
};

/// Work units per second: all threads start together and each does work(thread); the best of some
/// repetitions, as a limit should be. units: of all threads together.
double best_rate(unsigned threads, double units, const std::function<void(unsigned)>& work);

/// The model's tensors that measure_roofline() can read: consecutive ones, up to 512 MiB. Empty if
/// they would fit into the caches.
std::span<const std::byte> readable_weights(const GgufFile& file);

/// The read rate of all threads over these bytes (if empty, over 512 MiB of its own), best of some
/// repetitions.
double read_gbytes(const KernelSet& kernels, unsigned threads, std::span<const std::byte> bytes);

/// Takes about a second. Uses the instructions of the kernel set. weights: as `bytes` above, since
/// memory is not equally fast everywhere.
Roofline measure_roofline(const KernelSet& kernels, unsigned threads,
                          std::span<const std::byte> weights = {});

/// "read 30.1 GB/s, int8 dot …", those that there are.
std::string roofline_text(const Roofline& limits);

/// Seconds, all threads together.
struct PassLimit {
  double read = 0;   ///< reading all weights from memory
  double first = 0;  ///< GEMV of one token with weights in L2, with unpacking
  double token = 0;  ///< each further token, with many tokens

  [[nodiscard]] double products(std::size_t tokens) const {
    return first + token * static_cast<double>(tokens - 1);
  }
  /// The minimum time for n tokens.
  [[nodiscard]] double seconds(std::size_t tokens) const {
    return read > products(tokens) ? read : products(tokens);
  }
};

/// Multiplies some rows of every kind of matrix of the model.
PassLimit measure_pass_limit(const Model& model, const KernelSet& kernels, double read_gbytes,
                             unsigned threads);

}  // namespace cria::tools
