# Sourced by run and long: packages, the compiler's cache, and steps whose time is printed.
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"

# A clean clone elsewhere on the same machine finds in the cache what another one compiled.
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1

ci_begin=$(date +%s) step_begin=$ci_begin step_name=
# NAME: ends the step before, and begins one
step() {
  now=$(date +%s)
  [ -z "$step_name" ] || printf '== %s: %d s\n' "$step_name" $((now - step_begin))
  step_name=$1 step_begin=$now
  printf '\n== %s (%s)\n' "$1" "$(date +%T)"
}
finish() {
  step "done"
  printf '== all: %d min %d s\n' $(((now - ci_begin) / 60)) $(((now - ci_begin) % 60))
}
