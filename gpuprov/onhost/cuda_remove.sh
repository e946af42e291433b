#!/bin/sh
# Remove a CUDA toolkit that we made; what somebody else put into its folder stays there.
# Text before it: job_head.sh, manifest_ours.sh, manifest_list.sh, manifest_look.sh, cuda_stage.sh.
# In: what cuda_stage.sh reads.
# Ends with 0, or 10: what stands at the path is not ours. 12: a command is missing.
# shellcheck disable=SC2154  # the variables are set by what precedes
if [ ! -e "$gp_path" ] && [ ! -L "$gp_path" ]; then exit 0; fi
gp_is_ours || gp_stop 10 "$gp_path is not a toolkit that gpuprov made, and is left alone"
gp_stage_open
mkdir "$gp_stage/kept"
gp_keep "$gp_stage/kept"
if [ "$gp_kept" -gt 0 ]; then
  gp_swap "$gp_stage/kept"
else
  gp_swap ''
fi
# Not to be given back by the cleaning: from here on the tree is gone for good.
if [ -d "$gp_stage/old" ]; then rm -f "$gp_stage/old/manifest.json"; fi
gp_say "removing what was in $gp_path"
