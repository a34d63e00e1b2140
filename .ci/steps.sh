# Sourced by run and long: packages, compiler cache, and timed steps.
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"

# A clean clone in another directory shares the compiler cache.
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1

ci_begin=$(date +%s) step_begin=$ci_begin step_name=
# step NAME: ends the previous step and begins one.
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
