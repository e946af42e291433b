#!/bin/sh
# How a job that works on a tree begins.
# Out: gp_work  a folder for small files that the next attempt need not see
#      gp_say LINE...           tell it, each on its own line
#      gp_number N NOUN         print "1 package" or "2 packages"
#      gp_stop STATUS WHY ADVICE...   tell why and what to do, and end: gpuprov/causes.py makes the headline of it.
#                               1 means that a program of others failed, whose last words are then added.
set -eu
umask 022
LC_ALL=C
export LC_ALL
# shellcheck disable=SC2034  # read by what follows
gp_work=${GPUPROV_WORK:-$PWD}

gp_say() { printf '%s\n' "$*"; }
gp_number() { if [ "$1" -eq 1 ]; then echo "1 $2"; else echo "$1 $2s"; fi; }
gp_stop() {
  gp_status=$1
  shift
  printf 'stopped: %s\n' "$1" >&2
  shift
  [ $# -eq 0 ] || printf 'advice: %s\n' "$@" >&2
  exit "$gp_status"
}
