#!/bin/sh
# The controller has sent the whole file: check it, and let it appear at PATH.
# Text before it: download_common.sh.   Exit: as download.sh.
# shellcheck disable=SC2154
if gp_there; then
    gp_say "$gp_name is there already"
    exit 0
fi
gp_folder
gp_lock
gp_bytes "$gp_part"
[ "$gp_n" -ge "$gp_size" ] || gp_fail 75 "what was sent ends at $gp_n of $gp_size bytes"
if ! gp_right "$gp_part"; then
    : >"$gp_part"
    gp_fail 76 "what was sent has $gp_n bytes and $gp_found"
fi
gp_commit
