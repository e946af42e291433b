#!/bin/sh
# Make a symbolic link, or point it elsewhere, in one rename: there is never a moment without it.
# In:  gp_path, gp_target; gp_force, "yes" when a regular file in its place may go.
# shellcheck disable=SC2154  # the variables are set by what precedes
set -eu
if [ ! -L "$gp_path" ] && [ -e "$gp_path" ]; then
  if [ "$gp_force" != yes ] || [ ! -f "$gp_path" ]; then
    printf '%s is no link and is not replaced\n' "$gp_path" >&2
    exit 1
  fi
fi
gp_new=${gp_path%/*}/.gpuprov-link # one name for ever: what a killed run left behind goes with the next
trap 'rm -f "$gp_new"' EXIT
rm -f "$gp_new"
case $gp_target in
-*) ln -s -- "$gp_target" "$gp_new" ;;
*) ln -s "$gp_target" "$gp_new" ;;
esac
# -T keeps mv from moving into the folder that the old link points to. A mv without it (old busybox)
# needs the old link out of the way first; rm without -r cannot remove a folder.
mv -fT "$gp_new" "$gp_path" 2>/dev/null || { rm -f "$gp_path" && mv -f "$gp_new" "$gp_path"; }
