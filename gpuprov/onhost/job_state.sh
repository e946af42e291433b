#!/bin/sh
# What state a job slot is in. Text before it: job_process.sh. Defines functions only; the answers are gp_ variables.
#
# A slot is a folder <state>/jobs/NAME:
#   lock          flock held by the runner and all its descendants on descriptor 9
#   now           the present attempt; by rename. N/job is the same line, should `now` be damaged
#   work/         staging
#   N/{script,runner,log,pid,why,rc}
# Every record is one line of words without blanks that ends in " .", so that a truncated one is seen as such.
# shellcheck disable=SC2034,SC2154  # answers of, and for, other scripts

gp_read_job() { # In: file. Out: gp_attempt gp_jdigest gp_jnonce gp_jid gp_jowner gp_jboot gp_began (hundredths of uptime).
    { read -r gp_attempt gp_jdigest gp_jnonce gp_jid gp_jowner gp_jboot gp_began gp_dot <"$1"; } 2>/dev/null || return 1
    case "$gp_attempt|$gp_began" in *[!0-9\|]* | '|'* | *'|') return 1 ;; esac
    [ "$gp_dot" = . ]
}

gp_highest() { # In: slot folder. Out: gp_high, the highest attempt number there is or was.
    gp_high=0
    for gp_number in "$1"/[0-9]*; do
        gp_number=${gp_number##*/}
        case $gp_number in *[!0-9]* | 0* | ??????????*) continue ;; esac
        [ "$gp_number" -gt "$gp_high" ] && gp_high=$gp_number
    done
    # Kept outside the slot: numbers go on after a slot was moved aside, or a reader would resume at a wrong offset.
    gp_number=0
    { read -r gp_number gp_dot <"${1%/*}/.counts/${1##*/}"; } 2>/dev/null
    case $gp_number in '' | *[!0-9]* | 0* | ??????????*) return 0 ;; esac
    [ "$gp_dot" = . ] && [ "$gp_number" -gt "$gp_high" ] && gp_high=$gp_number
    return 0
}

gp_read_now() { # In: slot folder. As gp_read_job; false when there was no attempt.
    gp_read_job "$1/now" && return 0
    gp_highest "$1"
    gp_read_job "$1/$gp_high/job"
}

gp_read_rc() { # In: attempt folder. Out: gp_rc gp_how. False when there is none, or a damaged one.
    { read -r gp_rc gp_how gp_dot <"$1/rc"; } 2>/dev/null || return 1
    case $gp_rc in - | [0-9] | [0-9][0-9] | [0-9][0-9][0-9]) ;; *) return 1 ;; esac
    case $gp_how in ended | cancelled | deadline | silent) ;; *) return 1 ;; esac
    [ "$gp_dot" = . ]
}

gp_read_pid() { # In: attempt folder. Out: gp_runner gp_rstart gp_rboot gp_group gp_gstart ("-" before the job began).
    { read -r gp_runner gp_rstart gp_rboot gp_group gp_gstart gp_dot <"$1/pid"; } 2>/dev/null || return 1
    case $gp_runner in '' | *[!0-9]*) return 1 ;; esac
    [ "$gp_dot" = . ]
}

gp_marked() { # In: VARIABLE=value. Prints the pids that were started with it.
    grep -lsF "$1" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ gp_pid _; do
        gp_process "$gp_pid" && echo "$gp_pid"
    done
}

gp_runs() { # In: slot folder, with gp_read_now done. True when the runner of the present attempt lives.
    if gp_read_pid "$1/$gp_attempt"; then
        gp_same "$gp_runner" "$gp_rstart" "$gp_rboot"
        return
    fi
    [ "$gp_jboot" = "$gp_boot" ] || return 1
    # No pid yet: it is being started. Much later: the file was damaged, so its mark tells.
    gp_uptime
    [ $((gp_up - gp_began)) -lt 500 ] && return 0
    [ -n "$(gp_marked "GPUPROV_RUNNER=${1##*/}/$gp_attempt/$gp_jnonce")" ]
}

gp_is_held() { # In: slot folder. 0 held, 1 free, 2 cannot say. A missing flock (127) must not be read as held.
    [ -e "$1/lock" ] || return 1
    flock -n "$1/lock" true
    case $? in
    0) return 1 ;;
    1) return 0 ;;
    *) return 2 ;;
    esac
}

gp_judge() { # In: slot folder. Out: gp_seen: none running orphaned ended died unknown.
    gp_seen=none gp_rc=- gp_how=-
    gp_read_now "$1" || return 0
    gp_rc=- gp_how=-
    if gp_read_rc "$1/$gp_attempt"; then gp_seen=ended; return 0; fi
    gp_rc=- gp_how=-
    # The lock is tested only when the runner is gone: a test takes it for a moment.
    if gp_runs "$1"; then gp_seen=running; return 0; fi
    gp_is_held "$1"
    case $? in
    0) gp_seen=orphaned ;;
    1) gp_seen=died ;;
    *) gp_seen=unknown ;;
    esac
    # The runner may have written it between the two looks.
    if gp_read_rc "$1/$gp_attempt"; then gp_seen=ended; else gp_rc=- gp_how=-; fi
}

gp_fate() { # In: slot folder, attempt. Out: gp_fate: running, or how it ended, as a record's words.
    if gp_read_rc "$1/$2"; then gp_fate="E $gp_rc $gp_how"; return 0; fi
    gp_judge "$1"
    if [ "$gp_seen" != none ] && [ "$gp_attempt" = "$2" ]; then
        case $gp_seen in
        running | unknown) gp_fate=running ;;
        ended) gp_fate="E $gp_rc $gp_how" ;;
        orphaned) gp_fate="O - -" ;;
        *) gp_fate="X - -" ;;
        esac
    elif gp_read_rc "$1/$2"; then
        gp_fate="E $gp_rc $gp_how"
    else
        gp_fate="X - -"
    fi
}

gp_send() { # In: jobs folder/name, attempt, offset, size, most. Prints one record of log and moves gp_offset on.
    gp_offset=$3
    [ "$4" -gt "$3" ] || return 1
    gp_skip=$(($3 / 65536)) gp_head=$(($3 % 65536)) gp_length=$(($4 - $3))
    [ $gp_length -le "$5" ] || gp_length=$5
    printf 'D %s %s %s %s\n' "${1##*/}" "$2" "$3" "$gp_length" || exit 0
    # dd seeks; a tail from the start would read a large log from its beginning each time.
    dd bs=65536 skip=$gp_skip count=$(((gp_head + gp_length + 65535) / 65536)) if="$1/$2/log" 2>/dev/null |
        tail -c "+$((gp_head + 1))" | head -c "$gp_length"
    gp_offset=$(($3 + gp_length))
}
