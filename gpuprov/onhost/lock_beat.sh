#!/bin/sh
# Say that the owner of the host's lock is alive. Text before it: job_process.sh, state.sh. In: gp_state, gp_run.
# Out: as of lock.sh, without the owner's times.
# shellcheck disable=SC2154
printf 'state %s\n' "$gp_state"
gp_orun=''
{ read -r gp_orun gp_who gp_user gp_pid _ <"$gp_state/owner"; } 2>/dev/null
gp_uptime
if [ "$gp_orun" != "$gp_run" ]; then
    [ -z "$gp_orun" ] || printf 'owner %s %s %s %s -1 -1\n' "$gp_orun" "$gp_who" "$gp_user" "$gp_pid"
elif gp_write "$gp_state/beat" "$gp_up"; then
    echo held
fi
