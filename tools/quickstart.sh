#!/bin/sh
# Installs missing packages (Debian 12, Ubuntu 24.04), builds, and runs `cria chat` with the bundled
# model. Arguments go to `cria chat`. Works offline once everything is installed.
here=$PWD
. "$(dirname "$(readlink -f "$0")")/setup.sh"
# shellcheck disable=SC2086
need $CRIA_PACKAGES
build release -DCRIA_TESTS=OFF -DCRIA_BENCH=OFF -DCRIA_ISAS=native
cria=$PWD/build/release/tools/cria
cd "$here"
exec "$cria" chat "$@"
