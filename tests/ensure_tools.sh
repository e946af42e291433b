#!/bin/sh
# Install what the tests use beside Python: shells to try scripts in, a real OpenSSH, shellcheck.
set -eu
missing=
need() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"; }
need shellcheck shellcheck
need dash dash
need busybox busybox
need zsh zsh
need sshd openssh-server
need ssh openssh-client
need curl curl
need wget wget
need mount mount
need makeself makeself
need cc gcc
need sudo sudo
need tmux tmux
need setpriv util-linux
need iptables iptables
need apt-ftparchive apt-utils
need dpkg-scanpackages dpkg-dev
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "the tests need these packages; install them as root on a Debian-like machine:$missing" >&2
  exit 1
fi
echo "installing for the tests:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # a list of words
apt-get install -y -qq --no-install-recommends $missing >/dev/null
