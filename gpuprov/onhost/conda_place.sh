#!/bin/sh
# The place of a conda environment. An environment cannot be moved once it is made, so it is made where it will stand, and
# a mark beside it says so meanwhile: what has the mark and no manifest is half-made.
# Text before it: conda_look.sh.   In: what that reads, and gp_own: the line of our manifest that names the environment.
# Beside the environment stand, while something is under way:
#      .gpuprov-NAME.making    the mark: what stands at the path has no other owner than the attempt
#      .gpuprov-NAME.former    the environment that is being replaced
#      .gpuprov-NAME.removed   what is being deleted
# shellcheck disable=SC2154  # the variables are set by what precedes
set -eu
umask 022
LC_ALL=C
export LC_ALL

gp_say() { printf '%s\n' "$*"; }
gp_stop() { # status, lines
  gp_status=$1
  shift
  printf '%s\n' "$@" >&2
  exit "$gp_status"
}

# True when what stands at the path is the environment that we made.
gp_is_ours() {
  [ -d "$gp_path" ] && [ ! -L "$gp_path" ] && [ -f "$gp_path/manifest.json" ] || return 1
  gp_n=0
  while [ $gp_n -lt 20 ] && IFS= read -r gp_s; do
    [ "$gp_s" != "$gp_own" ] || return 0
    gp_n=$((gp_n + 1))
  done <"$gp_path/manifest.json"
  return 1
}

# Clear away what an attempt left: the half-made goes, and what it was to replace comes back.
gp_tidy() {
  rm -rf "$gp_gone"
  [ -f "$gp_mark" ] && [ ! -L "$gp_mark" ] || return 0
  if [ -d "$gp_path" ] && [ ! -L "$gp_path" ] && [ ! -f "$gp_path/manifest.json" ] &&
    { [ "${gp_attempt:-}" = ours ] || gp_is_marked; }; then
    gp_say "removing $gp_path, which is half-made"
    # Renamed first, so that a deletion that is cut off leaves nothing that looks like an environment.
    mv "$gp_path" "$gp_gone"
    rm -rf "$gp_gone"
  fi
  if [ -d "$gp_old" ]; then
    if [ -e "$gp_path" ] || [ -L "$gp_path" ]; then
      rm -rf "$gp_old"
    else
      mv "$gp_old" "$gp_path"
      gp_say "put back the former $gp_path"
    fi
  fi
  rm -f "$gp_mark"
}

# An EXIT trap.
gp_cleanup() {
  gp_status=$?
  trap '' TERM HUP INT
  [ -z "${gp_watch:-}" ] || kill "$gp_watch" 2>/dev/null || :
  cd /
  gp_tidy || :
  exit "$gp_status"
}
