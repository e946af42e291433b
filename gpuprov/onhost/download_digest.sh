#!/bin/sh
# Digest what is here of a file that the controller sends; a job, since it may be gigabytes.
# Text before it: download_common.sh.   Out, last line: "part BYTES SHA256".
# shellcheck disable=SC2154
gp_bytes "$gp_part"
gp_have=$gp_n
gp_digest sha256 "$gp_part"
gp_say "part $gp_have $gp_sum"
