// The encoders of weights of avx2.
#include "kernels/encode/encode.h"

namespace cria {

template EncodeFn encoder<Avx2>(DType type);

}  // namespace cria
