#!/bin/sh
# A place of our own beside a CUDA toolkit, on its file system, in which it is made ready and from which it is swapped in.
# Text before it: job_head.sh, manifest_ours.sh.
# In:  gp_path    where the toolkit stands or will stand
#      gp_version its X.Y
#      gp_own     the line of our manifest.json that names the toolkit: "id": ID,
#      gp_log     where NVIDIA's installer writes its log, whatever it is told
# Out of gp_stage_open: gp_stage, a folder that only we can write to:
#      lock        held by whoever works in it, so that the kernel says whether anybody does
#      path        what it is for, one line
#      old         the tree that was moved aside
#      former.log  somebody's installer log, put back at the end
# shellcheck disable=SC2154  # the variables are set by what precedes
gp_stage=''
gp_me=$(id -u)
gp_parent=${gp_path%/*}
gp_parent=${gp_parent:-/}

# gp_close STAGE: give back what was moved aside, if its place is empty, and remove the rest.
gp_close() {
  gp_place=''
  if [ -f "$1/path" ]; then IFS= read -r gp_place <"$1/path" || :; fi
  if [ -n "$gp_place" ] && [ -f "$1/old/manifest.json" ] && [ ! -e "$gp_place" ] && [ ! -L "$gp_place" ]; then
    mv -T "$1/old" "$gp_place" && gp_say "put back $gp_place"
  fi
  if [ -f "$1/former.log" ] && [ ! -e "$gp_log" ] && [ ! -L "$gp_log" ]; then mv "$1/former.log" "$gp_log"; fi
  rm -rf "$1"
}

# Remove what dead attempts left behind, of ours and beside this path only.
gp_leftovers() {
  for gp_d in "$gp_parent"/.gpuprov-cuda-*; do
    if [ ! -d "$gp_d" ] || [ -L "$gp_d" ] || [ "$(stat -c %u "$gp_d")" != "$gp_me" ]; then continue; fi
    if ! flock -n "$gp_d/lock" true; then
      gp_say "left alone: $gp_d is in use"
      continue
    fi
    gp_say "removing $gp_d, left behind by an attempt that was cut off"
    gp_close "$gp_d"
  done
}

# An EXIT trap: whatever happens, nothing of ours stays but what was swapped in.
gp_cleanup() {
  gp_status=$?
  trap '' TERM HUP INT
  [ -z "$gp_stage" ] || gp_close "$gp_stage" || :
  exit "$gp_status"
}

gp_stage_open() {
  for gp_c in stat mktemp flock mv find xargs sha256sum awk; do
    command -v $gp_c >/dev/null || gp_stop 12 "this host lacks the command $gp_c (packages coreutils, findutils, mawk, util-linux)"
  done
  mkdir -p "$gp_parent"
  gp_leftovers
  gp_stage=$(mktemp -d "$gp_parent/.gpuprov-cuda-$gp_version-XXXXXX")
  trap gp_cleanup EXIT
  trap 'exit 143' TERM
  trap 'exit 130' HUP INT
  exec 8>"$gp_stage/lock"
  flock -n 8
  printf '%s\n' "$gp_path" >"$gp_stage/path"
}

# gp_keep NEW: bring into NEW what somebody put into our tree: it is not in the manifest, so it is not ours to lose.
gp_keep() {
  # shellcheck disable=SC2034  # read by gp_manifest_look
  gp_extra=all
  gp_manifest_look "$gp_path" >"$gp_work/look"
  gp_kept=0
  while IFS= read -r gp_f; do
    case $gp_f in 'extra '*) gp_f=${gp_f#extra } ;; *) continue ;; esac
    # An escaped name is no path; nobody's library has one.
    case $gp_f in
    *\\*)
      gp_say "not kept, its name is too odd: $gp_f"
      continue
      ;;
    esac
    if [ -e "$1/$gp_f" ] || [ -L "$1/$gp_f" ]; then continue; fi
    case $gp_f in */*) mkdir -p "$1/${gp_f%/*}" ;; esac
    cp -a "$gp_path/$gp_f" "$1/$gp_f"
    gp_kept=$((gp_kept + 1))
  done <"$gp_work/look"
  if [ $gp_kept -gt 0 ]; then gp_say "kept what is not the toolkit's own in $gp_path: $(gp_number $gp_kept file)"; fi
}

# True when mv can exchange two folders in one step, on this file system.
gp_can_exchange() {
  mkdir "$gp_stage/x" "$gp_stage/y"
  : >"$gp_stage/x/mark"
  mv --exchange -T "$gp_stage/x" "$gp_stage/y" 2>/dev/null || :
  gp_r=1
  if [ -f "$gp_stage/y/mark" ] && [ -d "$gp_stage/x" ]; then gp_r=0; fi
  rm -rf "$gp_stage/x" "$gp_stage/y"
  return $gp_r
}

# gp_swap NEW: let NEW (nothing: no tree) stand at the path. Two renames at most lie between the old tree and the new.
gp_swap() {
  gp_replaces=''
  if [ -e "$gp_path" ] || [ -L "$gp_path" ]; then
    if gp_is_ours; then
      gp_replaces=yes
    elif ! rmdir "$gp_path" 2>/dev/null; then
      gp_stop 10 "$gp_path is something else by now than what was looked at, and is left alone"
    fi
  fi
  # From here on to the end of the second rename nobody stops us.
  trap '' TERM HUP INT
  if [ -z "$gp_replaces" ]; then
    [ -z "$1" ] || mv -T "$1" "$gp_path"
  elif [ -n "$1" ] && gp_can_exchange; then
    mv --exchange -T "$1" "$gp_path"
  else
    mv -T "$gp_path" "$gp_stage/old"
    if [ -n "$1" ]; then mv -T "$1" "$gp_path"; fi
  fi
}
