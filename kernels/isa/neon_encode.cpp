// The encoders of weights of neon.
#include "kernels/encode/encode.h"

namespace cria {

template EncodeFn encoder<Neon>(DType type);

}  // namespace cria
