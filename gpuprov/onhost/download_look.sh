#!/bin/sh
# Before the controller sends a file: see that it can be received, and say what is here of it.
# Text before it: download_common.sh.   In: what that wants; gp_frame, the most bytes that are digested in a
# frame; gp_anew, 1 when what is here is of no use.
# Out, last line: "part BYTES SHA256", with - for the digest of a part too large for a frame.  Exit: as download.sh.
# shellcheck disable=SC2154
command -v sha256sum >/dev/null || gp_fail 86 "this host has no sha256sum command, so nothing can be checked"
gp_folder
gp_lock
gp_bytes "$gp_part"
if [ "$gp_n" -gt "$gp_size" ] || [ "$gp_anew" -eq 1 ]; then : >"$gp_part"; fi
gp_space
gp_bytes "$gp_part"
gp_sum=-
[ "$gp_n" -gt "$gp_frame" ] || gp_sum=$(sha256sum <"$gp_part")
gp_say "part $gp_n ${gp_sum%% *}"
