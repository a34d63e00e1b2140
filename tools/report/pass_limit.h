// What a pass over the weights with few tokens must take on this machine: the reading or the
// arithmetic.
#pragma once

#include <cstdint>

#include "engine/model.h"
#include "tools/report/roofline.h"

namespace cria::tools {

/// Seconds, all threads together.
struct PassLimit {
  double read = 0;   ///< of all weights from memory
  double first = 0;  ///< the products of one token with weights that lie in the second-level cache:
                     ///< unpacking, too
  double token = 0;  ///< the products of a token, as one of many

  [[nodiscard]] double products(std::size_t tokens) const {
    return first + token * static_cast<double>(tokens - 1);
  }
  /// The least for so many tokens.
  [[nodiscard]] double seconds(std::size_t tokens) const {
    return read > products(tokens) ? read : products(tokens);
  }
};

/// Multiplies some rows of every kind of matrix of the model, on so many threads.
PassLimit measure_pass_limit(const Model& model, const KernelSet& kernels, double read_gbytes,
                             unsigned threads);

}  // namespace cria::tools
