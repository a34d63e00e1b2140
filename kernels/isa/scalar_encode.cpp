// The scalar encoders and decoders of weights: baseline flags, plain C++; they define the bits.
#include "kernels/encode/encode.h"
#include "kernels/lanes/dequantize.h"

namespace cria {

template EncodeFn encoder<ScalarIsa>(DType type);
template DequantizeFn dequantizer<ScalarIsa>(DType type);

}  // namespace cria
