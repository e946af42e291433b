#!/bin/sh
# Processes and the host's own clock, with builtins where it can be: who is this pid, is it still the same one, who
# stands in its session. Sourced (as text) before job_state.sh, job_runner.sh and lock.sh; defines functions only.
# shellcheck disable=SC2034  # the gp_ variables are the functions' answers, read by what follows

gp_uptime() { # Out: gp_up, hundredths of a second since the host started.
    gp_up=0
    read -r gp_line _ </proc/uptime && gp_up=$((${gp_line%.*} * 100 + 1${gp_line#*.} - 100))
}

gp_process() { # In: pid. Out: gp_pstate gp_pparent gp_psession gp_pstart. False when it is gone; a zombie is gone.
    { read -r gp_line <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086  # the words are wanted; the name, which may hold anything, ends at the last parenthesis
    set -- ${gp_line##*) }
    gp_pstate=$1 gp_pparent=$2 gp_psession=$4 gp_pstart=${20:-}
    case $gp_pstate in Z | X) return 1 ;; esac
    [ -n "$gp_pstart" ]
}

gp_host() { # Out: gp_boot, one start of this host: containers keep the kernel's boot id, so PID 1's start time is in it.
    gp_boot=-
    { read -r gp_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
    if gp_process 1; then gp_boot=$gp_boot+$gp_pstart; else gp_boot=$gp_boot+-; fi
}

gp_same() { # In: pid, start time, boot. True when that very process lives.
    [ "$3" = "$gp_boot" ] && gp_process "$1" && [ "$gp_pstart" = "$2" ]
}

gp_members() { # In: sessions. Prints the pids of their living members.
    for gp_sid; do
        case $gp_sid in '' | 0 | *[!0-9]*) continue ;; esac
        # Through cat: sed stops for good at a process that ends while it is being read.
        cat /proc/[0-9]*/stat 2>/dev/null |
            sed -n "s/^\([0-9][0-9]*\) (.*) [^ZX] [0-9-]* [0-9-]* $gp_sid .*/\1/p"
    done
}

gp_describe() { # In: pids. Prints "pid name (state, wchan)" of at most ten, separated by semicolons.
    gp_words='' gp_count=0
    for gp_pid; do
        gp_process "$gp_pid" || continue
        gp_count=$((gp_count + 1))
        [ $gp_count -le 10 ] || continue
        gp_name='?' gp_wchan=''
        { read -r gp_name <"/proc/$gp_pid/comm"; } 2>/dev/null
        # It has no newline at its end, so read fails although it read.
        { read -r gp_wchan <"/proc/$gp_pid/wchan"; } 2>/dev/null
        case $gp_wchan in '' | 0) gp_wchan='' ;; *) gp_wchan=", $gp_wchan" ;; esac
        gp_words="$gp_words${gp_words:+; }$gp_pid $gp_name ($gp_pstate$gp_wchan)"
    done
    [ $gp_count -le 10 ] || gp_words="$gp_words; and $((gp_count - 10)) more"
    printf '%s\n' "$gp_words"
}

gp_signal() { # In: signal, pids. No "--": dash and busybox refuse it.
    gp_which=$1
    shift
    for gp_pid; do kill "-$gp_which" "$gp_pid" 2>/dev/null; done
}

gp_write() { # In: file, line. By rename, so that a reader sees the whole line or the former one.
    printf '%s\n' "$2" >"$1.t" && mv -f "$1.t" "$1"
}

gp_nap() { # In: tenths of a second, less than ten.
    sleep "0.$1" 2>/dev/null || sleep 1
}
