// The scalar encoders of weights: baseline flags, plain C++; they define the bits.
#include "kernels/encode/encode.h"

namespace cria {

template EncodeFn encoder<ScalarIsa>(DType type);

}  // namespace cria
