#!/bin/bash
# Make sure that a Docker engine answers on this machine, and (with --build-tools) that the tools
# which build_images.sh needs are there.  Idempotent; does nothing when all is in place.
#
#   usage: ensure_engine.sh [--build-tools]
#
# Where no engine answers and this is a Debian machine with root, the engine is installed from the
# machine's own apt sources and started by hand when there is no systemd.
# Exit status: 0 all is there; 1 it is not, and one sentence on standard error says why.
set -euo pipefail

cache=${GPUPROV_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuprov-lab}
log=$cache/dockerd.log
want_build_tools=${1:-}

die() {
    echo "ensure_engine: $*" >&2
    exit 1
}

engine_answers() { timeout 10 docker info >/dev/null 2>&1; }
compose_answers() { timeout 10 docker compose version >/dev/null 2>&1; }

missing_packages() {
    command -v iptables >/dev/null || echo iptables
    command -v ip >/dev/null || echo iproute2
    command -v nsenter >/dev/null || echo util-linux
    command -v ssh >/dev/null || echo openssh-client
    [ "$want_build_tools" != --build-tools ] || command -v mmdebstrap >/dev/null || echo mmdebstrap
}

require_root_debian() {
    [ "$(id -u)" = 0 ] || die "$1, and installing it needs root."
    command -v apt-get >/dev/null || die "$1, and this is no Debian machine: install it by hand."
}

updated=
apt_install() {
    [ -n "$updated" ] || apt-get update -qq >/dev/null 2>&1 || true   # stale lists may still do
    updated=yes
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$cache/apt.log" 2>&1 ||
        die "apt-get could not install $*; see $cache/apt.log."
}

start_engine() {
    if [ -d /run/systemd/system ]; then
        systemctl start docker >/dev/null 2>&1 || die "systemctl could not start docker; see journalctl -u docker."
    elif ! pgrep -x dockerd >/dev/null; then
        rm -f /var/run/docker.pid   # left by an engine that was killed
        setsid dockerd >"$log" 2>&1 </dev/null &
    fi
    local deadline=$((SECONDS + 60))
    until engine_answers; do
        [ "$SECONDS" -lt "$deadline" ] || die "dockerd did not answer within 60 s; see $log."
        sleep 0.3
    done
}

# Compose v2 is what pytest-docker calls.  Debian 12 has only v1, which does not know it: take the
# package of the next release from the machine's own mirror and unpack the one file as a plug-in,
# with a separate apt state so that the machine's own sources stay as they are.
install_compose() {
    require_root_debian "docker compose (v2) is missing"
    local mirror state dest
    mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        sed -nE 's#^(URIs:|deb( \[[^]]*\])?) *(https?://[^ ]+).*#\3#p' | grep -v security | sed -n 1p) || true
    [ -n "$mirror" ] || die "docker compose (v2) is missing and no Debian mirror is named in the apt sources."
    state=$(mktemp -d)
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$state/sources.list"
    local opts=(-o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root)
    (cd "$state" && apt-get "${opts[@]}" update -qq && apt-get "${opts[@]}" download -qq docker-compose) \
        >"$cache/compose.log" 2>&1 || die "the docker-compose package could not be fetched; see $cache/compose.log."
    dpkg-deb -x "$state"/docker-compose_*.deb "$state/root"
    dest=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins
    mkdir -p "$dest"
    install -m 755 "$(find "$state/root" -type f -name docker-compose -perm -100 | head -n 1)" "$dest/docker-compose"
    rm -rf "$state"
    compose_answers || die "docker compose does not run though its plug-in was installed in $dest."
}

mkdir -p "$cache"
# One at a time: two test workers may start at once.
exec 9>"$cache/engine.lock"
flock -w 600 9 || die "another ensure_engine run has held the lock for ten minutes."

mapfile -t need < <(missing_packages)
if ! engine_answers && ! command -v dockerd >/dev/null; then
    need+=(docker.io)
fi
if [ ${#need[@]} -gt 0 ]; then
    require_root_debian "missing on this machine: ${need[*]}"
    apt_install "${need[@]}"
fi
if ! engine_answers; then
    command -v dockerd >/dev/null || die "no Docker engine answers, and dockerd is not installed."
    [ "$(id -u)" = 0 ] || die "no Docker engine answers, and starting one needs root."
    start_engine 9>&-
fi
compose_answers || install_compose
