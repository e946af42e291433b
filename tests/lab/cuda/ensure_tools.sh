#!/bin/bash
# Make sure that the tools which build the stand-ins are there: makeself and a C compiler.
#   usage: ensure_tools.sh
# Exit status: 0 they are; 1 they are not, and one sentence on standard error says why.
set -euo pipefail

die() {
    echo "ensure_tools: $*" >&2
    exit 1
}

need=()
command -v makeself >/dev/null || need+=(makeself)
[ -e /usr/include/stdio.h ] && command -v gcc >/dev/null || need+=(gcc libc6-dev)
[ ${#need[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || die "missing on this machine: ${need[*]}; installing them needs root."
command -v apt-get >/dev/null || die "missing on this machine, which is no Debian: ${need[*]}."
apt-get update -qq >/dev/null 2>&1 || true   # stale lists may still do
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null 2>&1 ||
    die "apt-get could not install ${need[*]}."
