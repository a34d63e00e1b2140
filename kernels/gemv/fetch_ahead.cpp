#include "kernels/gemv/fetch_ahead.h"

#include <unistd.h>

namespace cria {

/// (A system that does not tell says zero or less.)
static bool has_small_first_cache() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes > 0 && bytes < (48 << 10);
#else
  return false;
#endif
}

const bool kSmallFirstCache = has_small_first_cache();

}  // namespace cria
