#!/bin/sh
# usage: try_deb.sh [--made]
# Builds the Debian packages (--made: uses those in build/deb) and tries them in a minimal Debian
# 12: installs them, runs chat, ranks, Python, a C program and the service's command, and purges
# them. Needs root and a Debian mirror ($CRIA_MIRROR; default: apt's).
. "$(dirname "$(readlink -f "$0")")/../tools/setup.sh"
# shellcheck disable=SC2086
need $CRIA_PACKAGES libopenmpi-dev dpkg-dev file debootstrap
mirror=${CRIA_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Codename: bookworm' | head -n 1)}
[ "$(id -u)" -eq 0 ] || { echo "cria: error: debootstrap needs root" >&2; exit 1; }

if [ "${1:-}" != --made ]; then
  build deb
  rm -f build/deb/*.deb
  (cd build/deb && cpack -G DEB >&2)
fi
packages=$(cd build/deb && ls ./*.deb)
for package in $packages; do
  printf '%-32s %9d bytes, depends on %s\n' "${package#./}" "$(wc -c <build/deb/"$package")" "$(dpkg-deb -f build/deb/"$package" Depends)"
done

root=$(mktemp -d)
chmod 755 "$root"  # for the user nobody
leave() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf "$root"
}
trap leave EXIT
debootstrap --variant=minbase bookworm "$root" "${mirror:-http://deb.debian.org/debian}" >build/deb/debootstrap.log
mount -t proc proc "$root/proc"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" </dev/null; }
files() { inside find / -xdev -name proc -prune -o -print | sort; }
# Ignores logs, caches and the package database, which keep traces of any package.
trace() { grep -vE '^/var/(cache|log|lib/(apt|dpkg))/' "$1" | grep -i cria || true; }
step() { printf '\n== %s\n' "$1"; }

[ -z "$(files | grep -i cria)" ] || { echo "cria: error: cria is already installed" >&2; exit 1; }
mkdir "$root/packages"
cp build/deb/*.deb "$root/packages/"
step "apt-get install"
inside sh -c 'apt-get install -y -q --no-install-recommends /packages/*.deb' >build/deb/install.log 2>&1
inside dpkg-query -W -f '${Package} ${Version} ${Status}, ${Installed-Size} KiB\n' '*cria*'
inside sh -c 'ldconfig -p | grep libcria'
inside cria --version
inside grep -q 'License: CC-BY-SA-4.0' /usr/share/doc/cria/copyright
inside sh -c '! grep CC-BY-SA /usr/share/doc/libcria0/copyright'
inside sh -c 'test ! -e /etc/systemd/system/multi-user.target.wants/cria-serve.service' && echo "the service is not enabled"

step "cria chat"
echo "What is the capital of France?" | chroot "$root" cria chat --temp 0 | tee build/deb/chat.out
grep -q Paris build/deb/chat.out

step "two ranks"
inside cria --version | grep MPI
inside env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n 2 \
  cria run --temp 0 "What is the capital of France?" | tee build/deb/ranks.out
grep -q Paris build/deb/ranks.out

step "Python"
inside python3 -c 'import cria; print(cria.__version__, cria.Model("/usr/share/cria/cria-demo-Q8_0.gguf").chat("What is the capital of France?", temperature=0).text)' |
  tee build/deb/python.out
grep -q Paris build/deb/python.out

step "the service's command, as nobody"
command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/cria-serve.service")
port=$(inside python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# shellcheck disable=SC2086
chroot "$root" setpriv --reuid=65534 --regid=65534 --clear-groups env -i CRIA_PORT="$port" $command </dev/null 2>build/deb/serve.log &
server=$!
wait_for_health='
import json, sys, time, urllib.request
for attempt in range(600):
    try:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/health")
        print(answer.status, answer.read().decode().strip())
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("no answer")
'
inside python3 -c "$wait_for_health" "$port" || { kill $server; cat build/deb/serve.log; exit 1; }
kill -TERM $server
wait $server && echo "ended by SIGTERM: 0" || echo "ended by SIGTERM: $?"
if command -v systemd-analyze >/dev/null; then
  systemd-analyze security --offline=true --root="$root" cria-serve.service | tail -n 1
fi

step "a program in C by pkg-config, with libcria-dev"
inside apt-get install -y -q --no-install-recommends gcc libc6-dev pkg-config >>build/deb/install.log 2>&1
cp tests/consumer/chat.c "$root/tmp/chat.c"
inside sh -c 'gcc -std=c11 -Wall -Werror /tmp/chat.c -o /tmp/chat $(pkg-config --cflags --libs cria-c)'
echo "What is the capital of Norway?" | chroot "$root" /tmp/chat /usr/share/cria/cria-demo-Q8_0.gguf | tee build/deb/c.out
grep -q Oslo build/deb/c.out
rm "$root/tmp/chat" "$root/tmp/chat.c"

step "apt-get purge"
inside apt-get purge -y -q cria cria-mpi libcria0 libcria-dev python3-cria >build/deb/purge.log 2>&1
rm -r "$root/packages"
files >build/deb/after
[ "$(wc -l <build/deb/after)" -gt 1000 ] || { echo "cria: error: no list of files" >&2; exit 1; }
left=$(trace build/deb/after)
[ -z "$left" ] || { printf 'left behind:\n%s\n' "$left"; exit 1; }
inside sh -c '! dpkg-query -W "*cria*" 2>/dev/null' && echo "no files are left"
