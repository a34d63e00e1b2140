// The activation functions that KernelSet::activate knows. Formulas: kernels/README.md.
#pragma once

#include <cstdint>

namespace cria {

enum class ActivationKind : std::uint8_t {
  Silu,           ///< z·sigmoid(z)
  Gelu,           ///< by tanh
  ReluSquared,    ///< max(z, 0)²
  Xielu,          ///< with its four parameters
  ClampedSwiglu,  ///< gpt-oss: clamped gate and up, sigmoid of 1.702 times the gate, up + 1; needs
                  ///< up
  Sigmoid,
};

struct Activation {
  ActivationKind kind = ActivationKind::Silu;
  float alpha_p = 0, alpha_n = 0, beta = 0,
        eps = 0;  ///< Xielu: factors of z² and of e^z - 1 - z, as applied
};

}  // namespace cria
