#!/bin/sh
# Installs missing packages, builds everything and runs all tests. Passes its arguments to ctest (-R
# NAME, -j 2 …).
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"
# shellcheck disable=SC2086
need $CRIA_PACKAGES $CRIA_TEST_PACKAGES
build release -DCRIA_TESTS=ON -DCRIA_BENCH=ON
ctest --preset release "$@" </dev/null
