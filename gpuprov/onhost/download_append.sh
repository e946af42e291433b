#!/bin/sh
# Append a piece that the controller has put beside PATH.part, when it is the next one and whole.
# Text before it: download_common.sh.
# In:  gp_at, the size that the part must have; gp_length, the bytes that PATH.part.piece must have.
# Out: "part BYTES", its size now: the controller goes on from there, whatever it had thought.
# shellcheck disable=SC2154
gp_piece=$gp_part.piece
gp_lock
gp_bytes "$gp_piece"
gp_came=$gp_n
gp_bytes "$gp_part"
if [ "$gp_n" -eq "$gp_at" ] && [ "$gp_came" -eq "$gp_length" ]; then
    if ! gp_err=$(cat -- "$gp_piece" 2>&1 >>"$gp_part"); then
        rm -f -- "$gp_piece"
        ! gp_mount || [ "$gp_free" -ge "$gp_length" ] || gp_fail 78 "no space left for $gp_path: $gp_on has $gp_free bytes free"
        gp_fail 79 "$gp_part cannot be written: $gp_err"
    fi
    rm -f -- "$gp_piece"
    gp_bytes "$gp_part"
fi
gp_say "part $gp_n"
