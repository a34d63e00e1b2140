# Compiler options of every target.

# No contraction of a*b+c to FMA and no fast-math: results must not depend on the compiler.
# The baseline is x86-64-v2; kernels/ compiles wider instruction sets in separate units.
add_library(cria_flags INTERFACE)
target_compile_options(cria_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${CRIA_WERROR}>:-Werror> -ffp-contract=off)
# GCC 12 warns of overlapping copies in "text" + std::string (GCC bug 105651).
target_compile_options(cria_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# GCC collects garbage from 512 MiB on instead of 128 MiB: a tenth less time for some more memory.
target_compile_options(cria_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(cria_flags INTERFACE -march=x86-64-v2)
endif()
target_include_directories(cria_flags INTERFACE ${PROJECT_SOURCE_DIR})

# clang-format splits long strings in lists over lines.
target_compile_options(cria_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-string-concatenation>)
include(${CMAKE_CURRENT_LIST_DIR}/CriaHardening.cmake)

# cria_module(NAME SOURCES...) makes the static library cria_NAME, alias cria::NAME.
function(cria_module name)
  add_library(cria_${name} STATIC ${ARGN})
  add_library(cria::${name} ALIAS cria_${name})
  target_link_libraries(cria_${name} PRIVATE $<BUILD_INTERFACE:cria_flags>)
  if(NOT name STREQUAL "kernels")
    target_link_libraries(cria_${name} PRIVATE $<BUILD_INTERFACE:cria_hardened>)
  endif()
  target_include_directories(cria_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(cria_${name} PUBLIC cxx_std_20)
endfunction()

# cria_optimize(TARGET LEVEL) compiles a target at LEVEL in Release; only kernels need -O3.
# Builds with sanitizers and quick builds use -O0, which halves their time.
option(CRIA_QUICK "Optimize the kernels only, for quick builds" OFF)
function(cria_optimize target level)
  if(CRIA_QUICK OR (CMAKE_CXX_FLAGS MATCHES "-fsanitize=address" AND NOT CRIA_FUZZ AND level STREQUAL "-O1"))
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  endif()
endfunction()

# cria_group(TARGET) compiles files in groups, so that a group instantiates templates once: large
# groups take a third less time, small ones (CRIA_QUICK) are compiled sooner after an edit.
# Names in anonymous namespaces must be unique within a target. CRIA_PCH=OFF compiles single files
# without precompiled headers, which clang-tidy needs.
option(CRIA_PCH "Precompile common headers and compile files in groups" ON)
function(cria_group target)
  # GCC 12 warns of overflows and overreads in std::string if its header is precompiled.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
  set(size 32)
  if(CRIA_QUICK)
    set(size 8)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# cria_precompile(TARGET [HEADERS...]) precompiles common standard headers and HEADERS, and compiles
# files in groups.
function(cria_precompile target)
  if(CRIA_PCH)
    cria_group(${target})
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory>
                              <optional> <set> <span> <string> <string_view> <utility> <variant> <vector> ${ARGN})
  endif()
endfunction()

# cria_test_headers: the precompiled headers of all tests with common compiler options.
function(cria_add_test_headers)
  file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "int main() {}\n")
  add_executable(cria_test_headers ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(cria_test_headers PRIVATE cria_flags GTest::gtest_main)
  cria_precompile(cria_test_headers <gtest/gtest.h> <nlohmann/json.hpp>)
  cria_optimize(cria_test_headers -O0)
endfunction()

# cria_test(NAME LIBS libraries... SOURCES files... [HEADERS headers...] [SLOW cases...]) makes a
# GoogleTest program whose cases ctest knows. HEADERS: precompile these, since its compiler options
# differ from other tests'. SLOW has patterns of cases with the label "slow": they compute much and
# find no memory errors that others miss, so .ci/run omits them with sanitizers and under emulation.
# With sanitizers and under emulation, where a program starts slowly, the other cases run in a dozen
# processes.
function(cria_test name)
  cmake_parse_arguments(arg "" "" "LIBS;SOURCES;HEADERS;SLOW" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE cria_flags ${arg_LIBS} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE CRIA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             CRIA_DATA="${PROJECT_SOURCE_DIR}/data")
  if(arg_HEADERS)
    cria_precompile(${name} ${arg_HEADERS})
  elseif(CRIA_PCH)
    target_precompile_headers(${name} REUSE_FROM cria_test_headers)
  endif()
  if(CRIA_PCH)
    cria_group(${name})
  endif()
  cria_optimize(${name} -O0)
  set(limit 300)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(limit 1500)  # sanitizers make everything tens of times slower
    target_compile_definitions(${name} PRIVATE CRIA_TEST_SANITIZED)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # as in tools/
  endif()
  set(discover DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES)
  set(slow "")
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # equality of results is left to the release build
    list(APPEND arg_SLOW *SameBits* *SameBytes* *Gemm.Extreme*)
  endif()
  if(arg_SLOW)
    list(JOIN arg_SLOW ":" slow)
    gtest_discover_tests(${name} ${discover} TEST_FILTER "${slow}" PROPERTIES TIMEOUT ${limit} LABELS slow)
    set(slow "-${slow}")
  endif()
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize" AND NOT CMAKE_CROSSCOMPILING)
    gtest_discover_tests(${name} ${discover} TEST_FILTER "*${slow}" PROPERTIES TIMEOUT ${limit})
    return()
  endif()
  set(shards 12)
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1 "--gtest_filter=*${slow}")
    set_tests_properties(${name}.${shard} PROPERTIES TIMEOUT ${limit} ENVIRONMENT
                         "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
