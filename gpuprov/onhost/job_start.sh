#!/bin/sh
# Start one attempt of a job, or say what is there instead. Text before it: job_process.sh, job_state.sh, state.sh.
# In: gp_state, gp_name gp_digest gp_nonce gp_id gp_owner (words without blanks), gp_job (the script), gp_run (the text of
#     the runner), gp_limits (deadline and silence), gp_locks (names, sorted), gp_follow (a follower's folder name, or -).
# Out, one line: started N | ours N | running N | conflict N owner | orphaned N | busy N | missing command package |
#     unwritable path | unlockable path
# shellcheck disable=SC2154
umask 022
for gp_need in flock setsid; do
    command -v $gp_need >/dev/null || { echo "missing $gp_need util-linux"; exit 0; }
done
gp_slot=$gp_state/jobs/$gp_name

gp_unwritable() { printf 'unwritable %s\n' "$1"; exit 0; }

gp_register() { # The follower of this connection, if it is there, takes the job up without another exchange.
    [ "$gp_follow" != - ] && [ -d "$gp_state/follow/$gp_follow" ] || return 0
    # A follower without its folder ends, and is started anew with all that it is to follow.
    gp_write "$gp_state/follow/$gp_follow/$gp_name" "$1 0 ." || rm -rf "$gp_state/follow/$gp_follow"
}

if [ ! -d "$gp_state" ]; then
    { mkdir -p "$gp_state" && chmod 700 "$gp_state"; } || gp_unwritable "$gp_state"
fi
mkdir -p "$gp_slot" "$gp_state/jobs/.counts" || gp_unwritable "$gp_slot"
# In a subshell first: an exec that cannot open its file ends dash.
(exec 9>>"$gp_slot/lock") || gp_unwritable "$gp_slot/lock"
exec 9>>"$gp_slot/lock"
gp_host

gp_try=0
while :; do
    flock -n 9
    gp_code=$?
    [ $gp_code -ne 0 ] || break
    # Another status than "held": no such thing as a lock on this file system.
    [ $gp_code -eq 1 ] || { printf 'unlockable %s\n' "$gp_slot/lock"; exit 0; }
    # Held for a moment by somebody who looks, or starts, or ends; or by the job.
    gp_judge "$gp_slot"
    case $gp_seen in
    running)
        if [ "$gp_nonce" = "$gp_jnonce" ]; then gp_word=ours
        elif [ "$gp_digest" = "$gp_jdigest" ]; then gp_word=running
        else printf 'conflict %s %s\n' "$gp_attempt" "$gp_jowner"; exit 0; fi
        gp_register "$gp_attempt"
        printf '%s %s\n' $gp_word "$gp_attempt"
        exit 0
        ;;
    unknown) echo "missing flock util-linux"; exit 0 ;;
    esac
    gp_try=$((gp_try + 1))
    case $gp_seen:$gp_try in
    orphaned:5) echo "orphaned $gp_attempt"; exit 0 ;;
    *:10) echo "busy ${gp_attempt:-0}"; exit 0 ;;
    esac
    gp_nap 2
done

# The lock is ours, so nothing runs here.
if gp_read_now "$gp_slot" && [ "$gp_jnonce" = "$gp_nonce" ]; then
    # The line was lost after it had begun, and it has ended meanwhile.
    gp_register "$gp_attempt"
    echo "ours $gp_attempt"
    exit 0
fi
gp_highest "$gp_slot"
gp_attempt=$((gp_high + 1))
gp_dir=$gp_slot/$gp_attempt
gp_mark=$gp_name/$gp_attempt/$gp_nonce
gp_uptime
{
    gp_write "$gp_state/jobs/.counts/$gp_name" "$gp_attempt ." &&
        mkdir "$gp_dir" &&
        : >>"$gp_dir/log" &&
        printf '%s\n' "$gp_job" >"$gp_dir/script" &&
        printf '%s\n' "$gp_run" >"$gp_dir/runner" &&
        gp_write "$gp_dir/job" "$gp_attempt $gp_digest $gp_nonce $gp_id $gp_owner $gp_boot $gp_up ." &&
        gp_write "$gp_slot/now" "$gp_attempt $gp_digest $gp_nonce $gp_id $gp_owner $gp_boot $gp_up ."
} || gp_unwritable "$gp_dir"

# Old logs go, the last few stay.
for gp_path in "$gp_slot"/[0-9]*; do
    gp_n=${gp_path##*/}
    case $gp_n in *[!0-9]*) continue ;; esac
    [ "$gp_n" -gt $((gp_attempt - 5)) ] || { mv "$gp_path" "$gp_slot/old.$gp_n.log" && rm -rf "$gp_slot/old.$gp_n.log"; }
done

# The frame's mark is not the job's: what a frame left behind may be ended.
unset GPUPROV_FRAME
# shellcheck disable=SC2086  # limits and names of locks are words of [A-Za-z0-9_-]
GPUPROV_RUNNER=$gp_mark setsid sh "$gp_dir/runner" "$gp_slot" "$gp_attempt" "$gp_mark" $gp_limits $gp_locks \
    </dev/null >>"$gp_dir/log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- &
gp_register "$gp_attempt"
echo "started $gp_attempt"
