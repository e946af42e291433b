#!/bin/sh
# One attempt of one job, detached from whoever asked for it. Text before it: job_process.sh.
# It was started by setsid with stdin from /dev/null, output to the log, descriptor 9 holding the slot's lock, and
# GPUPROV_RUNNER as its mark. The job itself gets a session of its own, so that it can be ended without the runner.
# Arguments: slot folder, attempt, mark, deadline and silence in hundredths of a second, then names of locks, sorted.
# shellcheck disable=SC2154  # the gp_ variables are answers of job_process.sh
gp_slot=$1 gp_n=$2 gp_mark=$3 gp_deadline=$4 gp_silence=$5
shift 5
unset GPUPROV_RUNNER
gp_dir=$gp_slot/$gp_n gp_locks=${gp_slot%/*/*}/locks
cd "$gp_slot" || exit 1

gp_say() { printf 'gpuprov: %s\n' "$*"; }

gp_stopped() { # Out: gp_why. True when somebody asked for the end.
    gp_why=''
    [ -f "$gp_dir/why" ] || return 1
    read -r gp_why _ <"$gp_dir/why"
    case $gp_why in cancelled | deadline | silent) ;; *) gp_why=cancelled ;; esac
}

gp_finish() { # In: status, how. The last word on this attempt, said once.
    [ -f "$gp_dir/rc" ] && return
    # On a full disk the script of a job that is over makes the room in which to say how it ended.
    printf '%s %s .\n' "$1" "$2" >"$gp_dir/rc.t.$$" ||
        { : >"$gp_dir/script" && printf '%s %s .\n' "$1" "$2" >"$gp_dir/rc.t.$$"; } || return
    sync "$gp_dir/rc.t.$$" 2>/dev/null
    mv -f "$gp_dir/rc.t.$$" "$gp_dir/rc"
}

gp_release() { # An unlock counts for every holder: a daemon that the job left behind then holds nothing.
    for gp_fd in 3 4 5 6 7; do
        [ "$gp_fd" -lt "$gp_next" ] && flock -u "$gp_fd"
    done
    flock -u 9
}

gp_uptime
gp_host
gp_process $$
gp_mystart=$gp_pstart
gp_me="$$ $gp_mystart $gp_boot"
gp_write "$gp_dir/pid" "$gp_me - - ." || exit 1

gp_next=3
for gp_lock; do
    mkdir -p "$gp_locks"
    eval "exec $gp_next>>\"\$gp_locks/\$gp_lock\""
    gp_uptime
    gp_since=$gp_up gp_told=0
    until flock -n "$gp_next"; do
        gp_uptime
        gp_holder=''
        { read -r gp_holder <"$gp_locks/$gp_lock.holder"; } 2>/dev/null
        if [ "$gp_told" -eq 0 ] || [ $((gp_up - gp_told)) -ge 3000 ]; then
            gp_told=$gp_up
            gp_say "waiting for the lock $gp_lock, held by ${gp_holder:-somebody}"
        fi
        gp_stopped && { gp_finish 143 cancelled; gp_release; exit 0; }
        if [ $((gp_up - gp_since)) -ge "$gp_deadline" ]; then
            gp_say "the lock $gp_lock did not come free before the deadline"
            gp_finish 124 deadline
            gp_release
            exit 0
        fi
        gp_nap 3
    done
    gp_next=$((gp_next + 1))
    gp_write "$gp_locks/$gp_lock.holder" "${gp_mark%/*}"
done

# Renamed first: deleting a large tree may take minutes, and may fail on what another user made in it.
for gp_path in work old.*; do
    [ -e "$gp_path" ] || continue
    case $gp_path in work) mv work "old.$gp_n" && gp_path=old.$gp_n ;; esac
    rm -rf "$gp_path" 2>/dev/null
done
mkdir -p work || { gp_finish 1 ended; gp_release; exit 1; }
gp_stopped && { gp_finish 143 cancelled; gp_release; exit 0; }

(
    cd work || exit 1
    GPUPROV_JOB=$gp_mark GPUPROV_WORK=$gp_slot/work
    export GPUPROV_JOB GPUPROV_WORK
    exec setsid sh -eu "$gp_dir/script"
) &
gp_child=$!
if gp_process $gp_child; then gp_cstart=$gp_pstart; else gp_cstart=-; fi
gp_write "$gp_dir/pid" "$gp_me $gp_child $gp_cstart ."

gp_end_session() { # TERM, five seconds, KILL, five more. False when something outlives that: gp_left.
    kill -TERM -$gp_child 2>/dev/null
    # shellcheck disable=SC2046
    gp_signal TERM $(gp_members $gp_child)
    for gp_sig in TERM KILL; do
        gp_uptime
        gp_since=$gp_up
        while gp_left=$(gp_members $gp_child) && [ -n "$gp_left" ]; do
            if [ $gp_sig = KILL ]; then
                kill -KILL -$gp_child 2>/dev/null
                # shellcheck disable=SC2086
                gp_signal KILL $gp_left
            fi
            gp_uptime
            [ $((gp_up - gp_since)) -lt 500 ] || continue 2
            gp_nap 2
        done
        return 0
    done
    # shellcheck disable=SC2086
    gp_say "not even KILL ended: $(gp_describe $gp_left)"
    return 1
}

gp_end() { # In: reason, words. Ends the job's session.
    # shellcheck disable=SC2046
    gp_evidence=$(gp_describe $(gp_members $gp_child))
    gp_say "$2, so it is ended; it was at: ${gp_evidence:-nothing}"
    gp_write "$gp_dir/why" "$1"
    # In uninterruptible sleep even KILL waits. Nobody else needs to.
    gp_end_session || gp_finish 137 "$1"
}

gp_clear() { # A job that failed, or whose shell alone was killed, is not over while anything of it may still write.
    gp_left=$(gp_members $gp_child)
    [ -n "$gp_left" ] || return 0
    # shellcheck disable=SC2086
    gp_say "its shell ended with status $gp_status, so what it left is ended: $(gp_describe $gp_left)"
    gp_end_session
}

gp_watch() { # The limits, and the one place where a running job is ended.
    trap 'exit 0' TERM
    gp_uptime
    gp_since=$gp_up gp_last=$gp_up gp_size=-1 gp_looked=0
    while :; do
        gp_nap 5
        gp_same $$ "$gp_mystart" "$gp_boot" || exit 0
        [ ! -f "$gp_dir/rc" ] || exit 0
        gp_uptime
        if gp_stopped; then gp_end "$gp_why" "somebody asked for the end"; return; fi
        if [ $((gp_up - gp_since)) -ge "$gp_deadline" ]; then
            gp_end deadline "it ran for $((gp_deadline / 100)) s, its deadline"
            return
        fi
        # One process a look: a twentieth of the limit is soon enough.
        [ $((gp_up - gp_looked)) -ge $((gp_silence / 20)) ] || continue
        gp_looked=$gp_up
        gp_bytes=$(wc -c <"$gp_dir/log")
        [ "$gp_bytes" = "$gp_size" ] || gp_last=$gp_up gp_size=$gp_bytes
        if [ $((gp_up - gp_last)) -ge "$gp_silence" ]; then
            gp_end silent "it was silent for $((gp_silence / 100)) s"
            return
        fi
    done
}

# bash would write "Killed" into the log.
exec 2>/dev/null
gp_watch 3>&- 4>&- 5>&- 6>&- 7>&- 9>&- &
gp_watcher=$!
wait $gp_child
gp_status=$?
gp_how=ended
if gp_stopped; then
    gp_how=$gp_why
    wait $gp_watcher
else
    kill $gp_watcher 2>/dev/null
    # After a success it may be a service that was started.
    [ $gp_status -eq 0 ] || gp_clear
fi
gp_finish $gp_status "$gp_how"
[ $gp_status -ne 0 ] || mv work "old.$gp_n" 2>/dev/null
gp_release
rm -rf "old.$gp_n" 2>/dev/null
exit 0
