#!/bin/sh
# How a job that works on a tree begins.
# Out: gp_work  a folder for small files that the next attempt need not see
#      gp_say LINE...           tell it, each on its own line
#      gp_number N NOUN         print "1 package" or "2 packages"
#      gp_speak LINE            say it as ours: it begins with a mark that no program of others is told, and that is
#                               announced before any of them runs, so that none of theirs is taken for our words
#      gp_stop STATUS WHY ADVICE...   tell why and what to do, and end: gpuprov/causes.py makes the headline of it.
#                               1 means that a program of others failed, whose last words are then added.
set -eu
umask 022
LC_ALL=C
export LC_ALL
# shellcheck disable=SC2034  # read by what follows
gp_work=${GPUPROV_WORK:-$PWD}

unset gp_voice  # it must not be in the environment of what is started
{ read -r gp_voice </proc/sys/kernel/random/uuid; } 2>/dev/null || gp_voice=''
printf 'gpuprov speaks as %s\n' "${gp_voice:-nobody}"

gp_speak() { printf '%s%s\n' "${gp_voice:+$gp_voice }" "$1" >&2; }
gp_say() { printf '%s\n' "$*"; }
gp_number() { if [ "$1" -eq 1 ]; then echo "1 $2"; else echo "$1 $2s"; fi; }
gp_stop() {
  gp_status=$1
  shift
  gp_speak "stopped: $1"
  shift
  for gp_advice; do gp_speak "advice: $gp_advice"; done
  exit "$gp_status"
}
