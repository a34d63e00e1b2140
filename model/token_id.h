// A token: its index in the vocabulary.
#pragma once

#include <cstdint>

namespace cria {

using TokenId = std::int32_t;

}  // namespace cria
