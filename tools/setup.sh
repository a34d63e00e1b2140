#!/bin/sh
# Sourced by quickstart.sh, tests/run.sh and CI: goes to the project's root and defines
#   need PACKAGE…   installs missing Debian/Ubuntu packages, as root or with sudo
#   build PRESET    configures and builds build/PRESET
set -eu
cd "$(dirname "$(readlink -f "$0")")/.."

CRIA_PACKAGES="g++ cmake ninja-build pkg-config libtbb-dev libxsimd-dev libpcre2-dev libunistring-dev
  libtomlplusplus-dev nlohmann-json3-dev libedit-dev libprotozero-dev
  libboost-dev"
CRIA_TEST_PACKAGES="libgtest-dev libbenchmark-dev libsentencepiece-dev python3-numpy python3-pytest python3-setuptools
  python3-wheel mypy libopenmpi-dev openmpi-bin"

need() {
  missing=
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  sudo=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "cria: error: not root and no sudo; install these packages:$missing" >&2; exit 1; }
    sudo=sudo
  fi
  echo "installing:$missing" >&2
  $sudo apt-get update -q >&2 </dev/null
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2 </dev/null
}

build() {
  preset=$1
  shift
  cmake --preset "$preset" "$@" >&2 </dev/null
  cmake --build "build/$preset" >&2 </dev/null
}
