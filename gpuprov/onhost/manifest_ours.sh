#!/bin/sh
# Whether a tree is the one that we made. Read-only, and starts no process.
# In:  gp_path  where it stands
#      gp_own   the line of our manifest.json that names it: "id": ID,
# shellcheck disable=SC2154  # the variables are set by what precedes

gp_is_ours() {
  [ -d "$gp_path" ] && [ ! -L "$gp_path" ] && [ -f "$gp_path/manifest.json" ] || return 1
  gp_n=0
  while [ $gp_n -lt 40 ] && IFS= read -r gp_s; do
    [ "$gp_s" != "$gp_own" ] || return 0
    gp_n=$((gp_n + 1))
  done <"$gp_path/manifest.json"
  return 1
}
