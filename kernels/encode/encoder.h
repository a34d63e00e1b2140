// Encoders of weights by type. Every type that can be a weight matrix has one, in the file of its
// family; encode.h includes them all.
#pragma once

#include "kernels/formats/formats.h"
#include "kernels/kernels.h"

namespace cria {

/// Encoder<Isa, type>::run is the EncodeFn of a type.
template <class Isa, DType type>
struct Encoder;

/// KernelSet::encode: the encoder of a type; null for types that are no
/// weights. Instantiated by isa/NAME_encode.cpp.
template <class Isa>
EncodeFn encoder(DType type);

}  // namespace cria
