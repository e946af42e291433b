#!/bin/sh
# End a job. Text before it: job_process.sh, job_state.sh, state.sh. In: gp_state, gp_name, gp_sig (TERM or KILL),
# gp_cancel (1: it was asked for; empty: a leftover is cleared away). Only asks: look afterwards for what came of it.
# Out, one line: state attempt, a tab, what is left of it in words.
# shellcheck disable=SC2154,SC3013  # -ef is no word of POSIX, yet dash, bash and busybox all have it
gp_slot=$gp_state/jobs/$gp_name
gp_host
gp_judge "$gp_slot"
gp_left=''
case $gp_seen in
running)
    # Its runner ends it, with everything in its session, and writes the last word.
    if [ -n "$gp_cancel" ]; then
        gp_write "$gp_slot/$gp_attempt/why" cancelled
        if gp_read_pid "$gp_slot/$gp_attempt" && gp_same "$gp_group" "$gp_gstart" "$gp_rboot"; then
            kill "-$gp_sig" "-$gp_group" 2>/dev/null
        fi
    fi
    ;;
orphaned)
    # What carries its mark is its own, and so is the session around it. A leader is verified by its start time.
    gp_mark=$gp_name/$gp_attempt/$gp_jnonce
    gp_pids=$(gp_marked "GPUPROV_JOB=$gp_mark")
    gp_sessions=''
    for gp_pid in $gp_pids; do
        gp_process "$gp_pid" && gp_sessions="$gp_sessions $gp_psession"
    done
    if gp_read_pid "$gp_slot/$gp_attempt" && gp_same "$gp_group" "$gp_gstart" "$gp_rboot"; then
        gp_sessions="$gp_sessions $gp_group"
    fi
    if [ "$gp_sig" = KILL ]; then
        # Nothing but the runner and what came of it has descriptor 9 on this lock.
        for gp_path in /proc/[0-9]*/fd/9; do
            [ "$gp_path" -ef "$gp_slot/lock" ] || continue
            gp_path=${gp_path#/proc/}
            gp_pids="$gp_pids ${gp_path%%/*}"
        done
    fi
    gp_process $$
    gp_own=$gp_psession
    gp_pick=''
    for gp_sid in $gp_sessions; do
        case " $gp_pick $gp_own " in *" $gp_sid "*) ;; *) gp_pick="$gp_pick $gp_sid" ;; esac
    done
    # shellcheck disable=SC2086
    gp_pids="$gp_pids $(gp_members $gp_pick)"
    # shellcheck disable=SC2086
    gp_signal "$gp_sig" $gp_pids
    # shellcheck disable=SC2086
    gp_left=$(gp_describe $gp_pids)
    ;;
esac
printf '%s %s\t%s\n' "$gp_seen" "${gp_attempt:-0}" "$gp_left"
