#!/bin/sh
# One look at one followed job, where no channel can be had for following. Text before it: job_process.sh, job_state.sh,
# state.sh. In: gp_state gp_name gp_n gp_off gp_most. Out: records as of job_follow.sh, at most one of log.
# shellcheck disable=SC2154
gp_host
cd "$gp_state/jobs" || exit 3
gp_fate "$PWD/$gp_name" "$gp_n"
gp_size=0
[ ! -f "$gp_name/$gp_n/log" ] || gp_size=$(wc -c <"$gp_name/$gp_n/log")
gp_send "$PWD/$gp_name" "$gp_n" "$gp_off" "$gp_size" "$gp_most"
[ "${gp_fate%% *}" = running ] || [ "$gp_offset" -lt "$gp_size" ] ||
    printf '%s %s %s %s %s\n' "${gp_fate%% *}" "$gp_name" "$gp_n" "${gp_fate#* }" "$gp_offset"
