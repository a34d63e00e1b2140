#pragma once

namespace cria::test {

/// The program that is tested, and the project's root: absolute paths. In a file of their own, so
/// that the compiler's cache serves every clone with the other files.
const char* program_path();
const char* project_root();

}  // namespace cria::test
