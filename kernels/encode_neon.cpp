// The neon set's encoders of weights; CMakeLists.txt gives this file its own flags.
#include "kernels/encode.h"

namespace cria {

template EncodeFn encoder<Neon>(DType type);

}  // namespace cria
