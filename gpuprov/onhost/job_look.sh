#!/bin/sh
# What jobs there are. Text before it: job_process.sh, job_state.sh, state.sh. In: gp_state, gp_only (a slot's name, or
# empty for all). Out, a line each: state attempt digest id owner age rc how, a tab, the last line of the log.
# shellcheck disable=SC2154
gp_host
for gp_slot in "$gp_state/jobs/"${gp_only:-*}; do
    [ -d "$gp_slot" ] || continue
    gp_judge "$gp_slot"
    [ "$gp_seen" != none ] || continue
    gp_uptime
    # Another start of the host: its clock says nothing about this one.
    if [ "$gp_jboot" = "$gp_boot" ]; then gp_age=$((gp_up - gp_began)); else gp_age=-; fi
    printf '%s ' "$gp_seen" "$gp_attempt" "$gp_jdigest" "$gp_jid" "$gp_jowner" "$gp_age" "$gp_rc" "$gp_how"
    printf '\t%s\n' "$(tail -c 1000 "$gp_slot/$gp_attempt/log" 2>/dev/null | tr '\000-\037' '\n' | grep . | tail -n 1)"
done
