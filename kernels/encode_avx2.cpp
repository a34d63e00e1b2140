// The avx2 set's encoders of weights; CMakeLists.txt gives this file its own flags.
#include "kernels/encode.h"

namespace cria {

template EncodeFn encoder<Avx2>(DType type);

}  // namespace cria
