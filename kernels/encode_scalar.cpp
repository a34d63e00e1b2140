// The scalar encoders of weights: baseline flags, plain C++; define the bits.
#include "kernels/encode.h"

namespace cria {

template EncodeFn encoder<ScalarIsa>(DType type);

}  // namespace cria
