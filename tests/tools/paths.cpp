#include "tests/tools/paths.h"

namespace cria::test {

const char* program_path() { return CRIA_PROGRAM; }
const char* project_root() { return CRIA_SOURCE; }

}  // namespace cria::test
