#!/bin/sh
# How a job that works on a tree begins.
# Out: gp_work  a folder for small files that the next attempt need not see
#      gp_say LINE...           tell it, each on its own line
#      gp_stop STATUS LINE...   tell why, and end
set -eu
umask 022
LC_ALL=C
export LC_ALL
# shellcheck disable=SC2034  # read by what follows
gp_work=${GPUPROV_WORK:-$PWD}

gp_say() { printf '%s\n' "$*"; }
gp_stop() {
  gp_status=$1
  shift
  printf '%s\n' "$@" >&2
  exit "$gp_status"
}
