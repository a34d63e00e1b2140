// Text that a model writes itself to be calibrated with: prose from BOS, and dialogues by its chat
// template in which it also asks the questions (Xu et al. 2024, "Magpie").
#pragma once

#include <functional>
#include <vector>

#include "model/token_id.h"

namespace cria {

class Model;
struct KernelSet;

struct OwnTextOptions {
  std::size_t window = 512;  ///< tokens of each
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;  ///< null: kernels_in_use()
  /// Called now and then with the number of tokens; false stops.
  std::function<bool(std::size_t tokens)> on_progress = {};
};

/// Returns n windows of tokens, at temperature 1 and with fixed seeds: the same tokens each time.
/// Every other one has dialogues if the model has a chat template that renders them; the others
/// begin with BOS. Empty if on_progress stopped it.
std::vector<std::vector<TokenId>> own_windows(const Model& model, std::size_t n,
                                              const OwnTextOptions& options);

}  // namespace cria
