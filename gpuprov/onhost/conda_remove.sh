#!/bin/sh
# Remove a conda environment that we made, and what attempts left beside it.
# Text before it: job_head.sh, manifest_ours.sh, conda_look.sh, conda_place.sh.   In: what those read.
# Ends with 0, or 10: what stands at the path is not ours; 15: no permission to write.
# shellcheck disable=SC2154  # the variables are set by what precedes
[ -d "$gp_parent" ] || exit 0
gp_tidy
if [ ! -e "$gp_path" ] && [ ! -L "$gp_path" ]; then exit 0; fi
gp_is_ours || gp_stop 10 "$gp_path is not an environment that gpuprov made, and is left alone"
[ -w "$gp_parent" ] || gp_stop 15 "no permission to write in $gp_parent"
gp_say "removing $gp_path"
mv "$gp_path" "$gp_gone"
rm -rf "$gp_gone"
