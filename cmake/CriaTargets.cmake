# How every target of the project is compiled, said once.

# Bits must not depend on the compiler's mood: no contraction of a*b+c into FMA, no fast-math anywhere.
# The baseline is x86-64-v2; wider instruction sets live in kernels/ in translation units of their own.
add_library(cria_flags INTERFACE)
target_compile_options(cria_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${CRIA_WERROR}>:-Werror> -ffp-contract=off)
# GCC 12 sees overlapping copies in "text" + std::string where there are none (GCC bug 105651).
target_compile_options(cria_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(cria_flags INTERFACE -march=x86-64-v2)
endif()
target_include_directories(cria_flags INTERFACE ${PROJECT_SOURCE_DIR})

include(${CMAKE_CURRENT_LIST_DIR}/CriaHardening.cmake)

# cria_room(NAME SOURCES... ) makes the static library cria_NAME, alias cria::NAME, one per room.
function(cria_room name)
  add_library(cria_${name} STATIC ${ARGN})
  add_library(cria::${name} ALIAS cria_${name})
  target_link_libraries(cria_${name} PRIVATE $<BUILD_INTERFACE:cria_flags>)
  if(NOT name STREQUAL "kernels")
    target_link_libraries(cria_${name} PRIVATE $<BUILD_INTERFACE:cria_hardened>)
  endif()
  target_include_directories(cria_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(cria_${name} PUBLIC cxx_std_20)
endfunction()

# Files that begin with the same heavy headers (CLI11, JSON, oneTBB, GoogleTest) are compiled several at a time, 12 or as many as said:
# a third of the time. So names in anonymous namespaces are unique within such a target. CRIA_UNITY=OFF: each file alone, as clang-tidy
# wants it.
option(CRIA_UNITY "Compile files several at a time, but for kernels and benchmarks" ON)
function(cria_unity target)
  set(files 12 ${ARGN})
  list(GET files -1 files)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CRIA_UNITY} UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# cria_cold(TARGET [-O0]): the target's own speed matters little, what it spends its time on is the rooms; so it is compiled quickly,
# at -O1 or the level said. With sanitizers -O0 takes half the time of -O1.
function(cria_cold target)
  set(level -O1 ${ARGN})
  list(GET level -1 level)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=address" AND NOT CRIA_FUZZ)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# cria_test(NAME LIBS rooms... SOURCES files...) makes one GoogleTest program, its cases known to ctest.
function(cria_test name)
  cmake_parse_arguments(arg "" "" "LIBS;SOURCES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE cria_flags ${arg_LIBS} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE CRIA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             CRIA_DATA="${PROJECT_SOURCE_DIR}/data")
  cria_unity(${name} 24)
  cria_cold(${name} -O0)
  set(limit 300)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(limit 1500)  # everything is tens of times slower
    target_compile_definitions(${name} PRIVATE CRIA_TEST_SANITIZED)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # as in tools/
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES PROPERTIES TIMEOUT ${limit})
endfunction()
