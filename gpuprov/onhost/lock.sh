#!/bin/sh
# Take the host's lock. Evaluated by the persistent shell itself, whose descriptor 8 holds it, so nothing here may end
# that shell: all but the exec stands in subshells, and no command reads its stdin, which is the line.
# Text before it: job_process.sh, state.sh. In: gp_state, gp_run gp_who gp_user gp_pid (who asks; words without blanks),
# gp_limit (hundredths of a second of silence after which an owner is fenced), gp_protected (patterns of paths, one a line).
# Status 0: it is ours; otherwise the frame behind this does not run.
# Out, lines: state PATH | held (flock or mkdir) | owner run host user pid silent age (hundredths of a second; -1: unknown)
# | reason noflock | reason unwritable WORDS
# shellcheck disable=SC2154,SC3013  # -ef is no word of POSIX, yet dash, bash and busybox all have it
gp_report() { # Who holds it. Times in hundredths of a second of uptime.
    gp_orun=- gp_ohost=- gp_ouser=- gp_opid=- gp_odot='' gp_beat=- gp_silent=-1 gp_oage=-1
    {
        read -r gp_orun gp_ohost gp_ouser gp_opid gp_oshell gp_ostart gp_osession gp_oboot gp_osince gp_odot <"$1/owner"
    } 2>/dev/null
    { read -r gp_beat _ <"$1/beat"; } 2>/dev/null
    [ "$gp_odot" = . ] || return 1
    gp_uptime
    case $gp_osince in '' | *[!0-9]*) return 1 ;; esac
    case $gp_beat in '' | *[!0-9]*) gp_beat=$gp_osince ;; esac
    gp_silent=$((gp_up - gp_beat))
    # A clock that went back belongs to another start of the host.
    gp_oage=$((gp_up - gp_osince))
    [ "$gp_oboot" = "$gp_boot" ] || gp_silent=-1 gp_oage=-1
}

gp_fence() { # End every process of the owner's session, once its shell is known to be the very one that took the lock.
    gp_same "$gp_oshell" "$gp_ostart" "$gp_oboot" || return 1
    [ "$gp_psession" = "$gp_osession" ] || return 1
    gp_victim=$gp_osession
    gp_process $$
    # A shell that shares our session cannot be ended without us.
    [ "$gp_psession" != "$gp_victim" ] || return 1
    for gp_sig in TERM KILL; do
        gp_naps=0
        while gp_pids=$(gp_members "$gp_victim") && [ -n "$gp_pids" ]; do
            # shellcheck disable=SC2086
            gp_signal $gp_sig $gp_pids
            gp_naps=$((gp_naps + 1))
            [ $gp_naps -lt 8 ] || continue 2
            gp_nap 1
        done
        return 0
    done
    return 1
}

gp_leftovers() { # The last owner did not let go, and its shell is gone: what its frames left must not write beside us.
    gp_report "$gp_state" && [ "$gp_oboot" = "$gp_boot" ] || return 0
    # A leader of that number is somebody else's by now.
    ! gp_process "$gp_osession" || return 0
    gp_naps=0
    while [ $gp_naps -lt 30 ]; do
        gp_pids=''
        for gp_pid in $(gp_members "$gp_osession"); do
            ! grep -qsF GPUPROV_FRAME= "/proc/$gp_pid/environ" || gp_pids="$gp_pids $gp_pid"
        done
        [ -n "$gp_pids" ] || return 0
        # shellcheck disable=SC2086
        if [ $gp_naps -lt 10 ]; then gp_signal TERM $gp_pids; else gp_signal KILL $gp_pids; fi
        gp_naps=$((gp_naps + 1))
        gp_nap 1
    done
}

gp_may_fence() { # The run itself, come back; or an owner that was silent for too long.
    [ "$gp_orun" = "$gp_run" ] || { [ "$gp_silent" -ge 0 ] && [ "$gp_silent" -ge "$gp_limit" ]; }
}

gp_own() { # Write down who we are.
    gp_process $$ || return 1
    gp_uptime
    gp_write "$gp_state/beat" "$gp_up" &&
        gp_write "$gp_state/owner" "$gp_run $gp_who $gp_user $gp_pid $$ $gp_pstart $gp_psession $gp_boot $gp_up ."
}

gp_by_flock() {
    gp_try=0 gp_fenced=''
    until flock -n 8; do
        gp_try=$((gp_try + 1))
        if gp_report "$gp_state" && [ -z "$gp_fenced" ] && gp_may_fence; then
            gp_fenced=1
            gp_fence
        fi
        [ $gp_try -lt 3 ] || return 1
        gp_nap 1
    done
    gp_leftovers
    gp_claim flock
}

gp_claim() { # The lock is ours once our record is written. That it cannot be is nobody else's doing.
    if gp_own; then
        echo "held $1"
        return 0
    fi
    echo "reason unwritable the record of its owner (is the disk full?)"
    return 2
}

gp_by_mkdir() { # Without flock the kernel says nothing; the owner's shell does, by its pid and start time.
    gp_try=0
    until mkdir "$gp_state/lock.d" 2>/dev/null; do
        gp_try=$((gp_try + 1))
        [ $gp_try -lt 9 ] || return 1
        if gp_report "$gp_state"; then
            if gp_same "$gp_oshell" "$gp_ostart" "$gp_oboot"; then
                [ "$gp_oshell" != $$ ] || break
                { gp_may_fence && gp_fence; } || return 1
            fi
        elif [ $gp_try -lt 5 ]; then
            # Made just now, and the owner not written yet.
            gp_nap 3
            continue
        fi
        # Its owner is gone. Of those who see that, one takes it over, and the others look again.
        if mkdir "$gp_state/lock.take" 2>/dev/null; then
            if ! gp_report "$gp_state" || ! gp_same "$gp_oshell" "$gp_ostart" "$gp_oboot"; then
                gp_leftovers
                gp_own
                rmdir "$gp_state/lock.take"
                break
            fi
            rmdir "$gp_state/lock.take"
            return 1
        fi
        [ $gp_try -ne 8 ] || rmdir "$gp_state/lock.take" 2>/dev/null
        gp_nap 3
    done
    gp_claim mkdir
}

gp_other() { # After a failure of status $1: say who has it, and fail.
    [ "$1" -ne 2 ] || return 1
    printf 'owner %s %s %s %s %s %s\n' "$gp_orun" "$gp_ohost" "$gp_ouser" "$gp_opid" "$gp_silent" "$gp_oage"
    return 1
}

gp_others() { # Which folder that others live on the state folder would lie in; nothing knows the facts of the host yet.
    gp_d=$gp_state gp_rest=
    until [ -d "${gp_d:-/}" ]; do gp_rest=/${gp_d##*/}$gp_rest gp_d=${gp_d%/*}; done
    # Links lead elsewhere
    gp_real=$(cd -P -- "${gp_d:-/}" 2>/dev/null && pwd -P) || gp_real=$gp_d
    gp_d=${gp_real%/}$gp_rest
    while [ -n "$gp_d" ]; do
        if [ -x "$gp_d/bin/conda" ] && [ -d "$gp_d/conda-meta" ]; then
            echo "it would lie in conda's base $gp_d: give paths.state a folder of its own" && return
        elif [ -x "$gp_d/bin/nvcc" ] && { [ -f "$gp_d/version.json" ] || [ -f "$gp_d/version.txt" ]; }; then
            echo "it would lie in the CUDA toolkit $gp_d: give paths.state a folder of its own" && return
        fi
        while IFS= read -r gp_p; do
            # shellcheck disable=SC2254  # it is a pattern
            case $gp_d in $gp_p) echo "it would lie in $gp_d, which is protected: give paths.state a folder of its own" && return ;; esac
        done <<GP_PROTECTED
$gp_protected
GP_PROTECTED
        gp_d=${gp_d%/*}
    done
    return 1
}

gp_prepare() {
    umask 077
    ! gp_others || return 1
    # A folder that others use is never closed to them: only what we made, or find empty of a stranger's rights, is ours.
    if [ -d "$gp_state" ] && [ ! -f "$gp_state/lock" ]; then
        case $(ls -ld "$gp_state/.") in
        d???------*) ;;
        *) echo "it is there already, open to others and not gpuprov's: name a folder of its own" && return 1 ;;
        esac
    fi
    mkdir -p "$gp_state" && chmod 700 "$gp_state" && (: >>"$gp_state/lock") && (: >"$gp_state/beat.t")
}

printf 'state %s\n' "$gp_state"
if ! gp_why=$(gp_prepare 2>&1 </dev/null); then
    printf 'reason unwritable %s\n' "$gp_why"
    false
elif ! command -v flock >/dev/null; then
    (
        gp_host
        echo "reason noflock"
        gp_by_mkdir || gp_other $?
    ) </dev/null
elif [ /proc/$$/fd/8 -ef "$gp_state/lock" ] && flock -n 8 </dev/null; then
    # This very shell has it already: opening it anew would let it go for a moment.
    (gp_host; gp_own && echo "held flock") </dev/null
elif (exec 8>>"$gp_state/lock") 2>/dev/null; then
    exec 8>>"$gp_state/lock"
    (
        gp_host
        gp_by_flock || gp_other $?
    ) </dev/null || { exec 8>&-; false; }
else
    false
fi
