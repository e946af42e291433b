#!/bin/sh
# The place of a conda environment. An environment cannot be moved once it is made, so it is made where it will stand, and
# a mark beside it says so meanwhile: what has the mark and no manifest is half-made.
# Text before it: job_head.sh, manifest_ours.sh, conda_look.sh.   In: what those read.
# Beside the environment stand, while something is under way:
#      .gpuprov-NAME.making    the mark: what stands at the path has no other owner than the attempt
#      .gpuprov-NAME.former    the environment that is being replaced
#      .gpuprov-NAME.removed   what is being deleted
# shellcheck disable=SC2154  # the variables are set by what precedes

# Clear away what an attempt left: the half-made goes, and what it was to replace comes back.
gp_tidy() {
  rm -rf "$gp_gone"
  rm -f "$gp_mark.new"
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
  # The watch is let end by itself: killed in the middle it, or a mv of its, would write a mark after the tidying.
  if [ -n "${gp_watch:-}" ]; then
    # Not ":", whose failing redirection would end the shell
    true >"$gp_work/over" || kill "$gp_watch" 2>/dev/null || :
    wait "$gp_watch" 2>/dev/null || :
  fi
  cd /
  gp_tidy || :
  exit "$gp_status"
}
