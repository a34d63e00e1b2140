// The encoders and decoders of weights of avx2.
#include "kernels/encode/encode.h"
#include "kernels/lanes/dequantize.h"
#include "kernels/simd/avx2.h"

namespace cria {

template EncodeFn encoder<Avx2>(DType type);
template DequantizeFn dequantizer<Avx2>(DType type);

}  // namespace cria
