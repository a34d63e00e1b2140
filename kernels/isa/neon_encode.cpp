// The encoders and decoders of weights of neon.
#include "kernels/encode/encode.h"
#include "kernels/lanes/dequantize.h"
#include "kernels/simd/neon.h"

namespace cria {

template EncodeFn encoder<Neon>(DType type);
template DequantizeFn dequantizer<Neon>(DType type);

}  // namespace cria
