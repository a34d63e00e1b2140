// The encoders of weights of avx512vnni.
#include "kernels/encode/encode.h"

namespace cria {

template EncodeFn encoder<Avx512>(DType type);

}  // namespace cria
