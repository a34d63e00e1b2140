# Hardening of release builds; tests/tools/hardening.sh checks the binary. The kernels are compiled
# without it: their callers have checked all sizes, and checks would slow their loops down.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

set(hardened_default ON)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize" OR CRIA_QUICK OR NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(hardened_default OFF)  # sanitizers find more, and fortified functions need an optimizer
endif()
option(CRIA_HARDEN "Stack protector, fortified libc, library assertions, control-flow protection, full RELRO" ${hardened_default})

add_library(cria_hardened INTERFACE)
if(CRIA_HARDEN)
  # Ubuntu's compilers define a level of their own.
  target_compile_options(cria_hardened INTERFACE -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS)
  target_link_options(cria_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(cria_flags INTERFACE -fcf-protection)  # an instruction per function; all objects or none
  endif()
endif()
