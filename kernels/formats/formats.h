// All formats: a file per family.
#pragma once

#include "kernels/formats/blocks32.h"  // IWYU pragma: export
#include "kernels/formats/fp4.h"       // IWYU pragma: export
#include "kernels/formats/iq.h"        // IWYU pragma: export
#include "kernels/formats/iq4.h"       // IWYU pragma: export
#include "kernels/formats/k.h"         // IWYU pragma: export
#include "kernels/formats/numbers.h"   // IWYU pragma: export
#include "kernels/formats/ternary.h"   // IWYU pragma: export
