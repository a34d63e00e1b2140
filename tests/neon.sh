#!/bin/sh
# Cross-builds the kernels for AArch64 and runs their tests under qemu-user. Arguments go to ctest.
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"
need g++-aarch64-linux-gnu qemu-user cmake ninja-build libgtest-dev libxsimd-dev
cmake -G Ninja -S tests/neon -B build/neon >&2 </dev/null
cmake --build build/neon >&2 </dev/null
ctest --test-dir build/neon --output-on-failure "$@" </dev/null
