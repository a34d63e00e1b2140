// The side of all ranks but 0: they load the same models, open the same engines, and compute their
// part of every batch.
#pragma once

#include <string>

#include "engine/ranks/ranks.h"

namespace cria {

/// Does what rank 0's Leader tells until that ends. Models that cannot be loaded and engines that
/// cannot be opened are reported to it; what else goes wrong is thrown, and all ranks must end
/// then.
void follow(Ranks& ranks, const std::string& version);

}  // namespace cria
