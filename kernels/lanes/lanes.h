// The decoders of all types.
#pragma once

#include "kernels/lanes/blocks32.h"  // IWYU pragma: export
#include "kernels/lanes/fp4.h"       // IWYU pragma: export
#include "kernels/lanes/iq.h"        // IWYU pragma: export
#include "kernels/lanes/iq4.h"       // IWYU pragma: export
#include "kernels/lanes/k.h"         // IWYU pragma: export
#include "kernels/lanes/ternary.h"   // IWYU pragma: export
