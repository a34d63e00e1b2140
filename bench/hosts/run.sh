#!/bin/bash
# Runs a program under mpirun with network namespaces of this machine as hosts, over TCP.
#   bench/hosts/run.sh [-n HOSTS] [-l LAT_US,GBPS] [-k] PROGRAM ARGUMENT…
# One rank per host (default: 2 hosts). -l: latency and rate of the network, by tc netem or, if the
# kernel lacks it, by slow_link.c. -k: keep the namespaces cria1, cria2 … Needs root, iproute2,
# openmpi-bin; for slow_link.c libopenmpi-dev.
set -eu
hosts=2 link="" keep=""
while getopts n:l:k option; do
  case $option in
    n) hosts=$OPTARG ;;
    l) link=$OPTARG ;;
    k) keep=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)

end() {
  rm -rf "$scratch"
  [ -n "$keep" ] && return
  for ((i = 1; i <= hosts; ++i)); do
    ip link del "criaport$i" 2>/dev/null || true  # at once; links of a namespace disappear later than it
    ip netns del "cria$i" 2>/dev/null || true
  done
  ip link del criabridge 2>/dev/null || true
}
trap end EXIT

ip link show criabridge >/dev/null 2>&1 || ip link add criabridge type bridge
ip link set criabridge up
for ((i = 1; i <= hosts; ++i)); do
  ip netns list | grep -qw "cria$i" && continue
  ip netns add "cria$i"
  ip link add "criaport$i" type veth peer name eth0 netns "cria$i"
  ip link set "criaport$i" master criabridge up
  ip -n "cria$i" address add "10.199.0.$i/24" dev eth0
  ip -n "cria$i" link set lo up
  ip -n "cria$i" link set eth0 up
done
for ((i = 1; i <= hosts; ++i)); do echo "10.199.0.$i slots=1"; done >"$scratch/hosts"

settings=()
if [ -n "$link" ]; then
  for ((i = 1; i <= hosts; ++i)); do
    ip netns exec "cria$i" tc qdisc replace dev eth0 root netem delay "${link%,*}us" rate "${link#*,}gbit" 2>/dev/null && continue
    echo "run.sh: the kernel lacks netem; using slow_link.c" >&2
    mpicc -O2 -shared -fPIC -o "$scratch/slow_link.so" "$here/slow_link.c"
    touch "$scratch/table"
    settings=(-x "LD_PRELOAD=$scratch/slow_link.so" -x "SLOW_LINK=$link" -x "SLOW_LINK_TABLE=$scratch/table")
    break
  done
fi

# mpirun calls this instead of ssh: HOST COMMAND…
cat >"$scratch/enter" <<'END'
#!/bin/bash
number=${1##*.}
shift
exec ip netns exec "cria$number" unshare --uts bash -c "hostname cria$number; exec bash -c \"\$0\"" "$*"
END
chmod +x "$scratch/enter"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ip netns exec cria1 unshare --uts bash -c 'hostname cria1; exec "$@"' mpirun mpirun -n "$hosts" --hostfile "$scratch/hosts" \
  --bind-to none --mca plm_rsh_agent "$scratch/enter" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
  "${settings[@]}" "$@"
