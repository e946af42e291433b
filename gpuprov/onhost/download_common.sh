#!/bin/sh
# What every script about one large file shares: its sizes, space, digest, lock and commit. Functions and names only.
# In:  gp_path (absolute), gp_size (bytes, 0: not known), gp_sha256, gp_md5 (one of them may be empty); set -eu.
#      Scratch files are made in the working folder.
# The unfinished file is PATH.part. Whoever writes it holds an flock on that very file, and so does the tool that it
# started: the kernel lets go when the last of them is gone, and a rename or removal needs no lock file beside it.
# Exit statuses: see download.sh.
# shellcheck disable=SC2154,SC2034,SC3013  # dash, bash and busybox all know -ef
LC_ALL=C
export LC_ALL
umask 022
set -f
gp_name=${gp_path##*/} gp_dir=${gp_path%/*} gp_part=$gp_path.part
gp_dir=${gp_dir:-/}
gp_child='' gp_locked='' gp_told=0 gp_beat=1

gp_say() { printf '%s\n' "$*"; }

gp_fail() { # In: exit status, words.
    gp_status=$1
    shift
    gp_say "$*"
    exit "$gp_status"
}

gp_tidy() { # An empty part says nothing to the next run.
    [ -z "$gp_locked" ] || [ -s "$gp_part" ] || rm -f -- "$gp_part"
}

gp_stop() {
    [ -z "$gp_child" ] || kill "$gp_child" 2>/dev/null || :
    exit 143
}
trap gp_tidy EXIT
trap gp_stop TERM INT HUP

gp_clock() { # Out: gp_now, hundredths of a second since the host started.
    read -r gp_line _ </proc/uptime
    gp_now=$((${gp_line%.*} * 100 + 1${gp_line#*.} - 100))
}

gp_nap() { # Short at first, so that small files are not waited for.
    sleep "0.$gp_beat" 2>/dev/null || sleep 1
    [ $gp_beat -ge 5 ] || gp_beat=$((gp_beat + 1))
}

gp_bytes() { # In: file. Out: gp_n, its size; 0 when it is not there.
    gp_n=$(stat -Lc %s -- "$1" 2>/dev/null) || gp_n=0
}

gp_end_child() { # Out: gp_rc, how the child ended.
    gp_rc=0
    { wait "$gp_child" || gp_rc=$?; } 2>/dev/null
    gp_child=''
}

gp_tell() { # In: verb, bytes done, host or nothing. At most one line in two seconds.
    gp_clock
    [ "$gp_told" -gt 0 ] || gp_told=$gp_now gp_told_n=$2
    gp_dt=$((gp_now - gp_told))
    [ $gp_dt -ge 200 ] || return 0
    gp_rate=$((($2 - gp_told_n) / (gp_dt * 1000)))
    [ $gp_rate -ge 0 ] || gp_rate=0
    gp_total=''
    [ "$gp_size" -eq 0 ] || gp_total=/$gp_size
    gp_say "$1 $gp_name $2$gp_total bytes ($((gp_rate / 10)).$((gp_rate % 10)) MB/s)${3:+ from $3}"
    gp_told=$gp_now gp_told_n=$2
}

gp_digest() { # In: sha256 or md5, file. Out: gp_sum.
    command -v "$1sum" >/dev/null || gp_fail 86 "this host has no $1sum command, so nothing can be checked"
    "$1sum" <"$2" >sum 2>complaint 8>&- &
    gp_child=$! gp_told=0 gp_beat=1
    while kill -0 "$gp_child" 2>/dev/null; do
        gp_nap
        gp_at=0
        { read -r _ gp_at <"/proc/$gp_child/fdinfo/0"; } 2>/dev/null || continue
        gp_tell checking "${gp_at:-0}"
    done
    gp_end_child
    [ $gp_rc -eq 0 ] || gp_fail 79 "$2 cannot be read: $(tail -n 1 complaint)"
    gp_sum=''
    read -r gp_sum _ <sum || :
}

gp_right() { # In: file. True when its digest is as it must be. Out: gp_found, in words.
    if [ -n "$gp_sha256" ]; then
        gp_digest sha256 "$1"
        gp_found="sha256 $gp_sum"
        [ "$gp_sum" = "$gp_sha256" ]
    else
        gp_digest md5 "$1"
        gp_found="md5 $gp_sum"
        [ "$gp_sum" = "$gp_md5" ]
    fi
}

gp_there() { # True when the file at the path is the right one already.
    [ -f "$gp_path" ] || return 1
    gp_bytes "$gp_path"
    if [ "$gp_size" -gt 0 ] && [ "$gp_n" -ne "$gp_size" ]; then
        gp_say "what is at $gp_path has $gp_n bytes instead of $gp_size; it will be replaced"
        return 1
    fi
    gp_right "$gp_path" && return 0
    gp_say "what is at $gp_path has $gp_found; it will be replaced"
    return 1
}

gp_record() { # In: file. Where only an md5 was given: write down the sha256 that was found.
    [ -z "$gp_sha256" ] || return 0
    gp_say "warning: $gp_name is known by its md5 only, which somebody could forge"
    gp_digest sha256 "$1"
    gp_say "the sha256 of $gp_name is $gp_sum"
    printf '%s  %s\n' "$gp_sum" "$gp_name" >"$gp_path.sha256.t" && mv -f -- "$gp_path.sha256.t" "$gp_path.sha256"
}

gp_mount() { # Out: gp_free (bytes), gp_on (mount). False when it cannot be told.
    # -P keeps it on one line; the mount is what follows the percentage, blanks and all.
    gp_df=$(df -Pk -- "$gp_dir" 2>/dev/null |
        sed -n '2s/^.*[[:space:]]\([0-9][0-9]*\)[[:space:]]\{1,\}[0-9-]*%*[[:space:]]\{1,\}\(\/.*\)$/\1 \2/p')
    [ -n "$gp_df" ] || return 1
    gp_free=$((${gp_df%% *} * 1024)) gp_on=${gp_df#* }
}

gp_space() { # Is there room for the bytes that are still to come?
    [ "$gp_size" -gt 0 ] && gp_mount || return 0
    gp_bytes "$gp_part"
    gp_need=$((gp_size - gp_n))
    [ "$gp_need" -le "$gp_free" ] ||
        gp_fail 78 "not enough space for $gp_path: it needs $gp_need bytes more, and $gp_on has $gp_free free"
}

gp_folder() { # See that the folder is there.
    [ ! -d "$gp_path" ] || gp_fail 79 "$gp_path is a folder"
    gp_err=$(mkdir -p -- "$gp_dir" 2>&1) || gp_fail 79 "the folder $gp_dir cannot be made: $gp_err"
}

gp_lock() { # Hold PATH.part, alone. Out: gp_waited, yes when somebody else had it.
    gp_waited='' gp_since=0
    while :; do
        # In a subshell first: an exec that cannot open its file ends dash.
        gp_err=$( (: >>"$gp_part") 2>&1) || gp_fail 79 "$gp_part cannot be written: $gp_err"
        exec 8>>"$gp_part"
        gp_rc=0
        if command -v flock >/dev/null; then flock -n 8 2>/dev/null || gp_rc=$?; fi
        if [ $gp_rc -ne 1 ]; then
            gp_locked=yes
            # It may have been renamed or removed by who had it: then this is the lock of something else.
            { [ ! -e /proc/self/fd/8 ] || [ /proc/self/fd/8 -ef "$gp_part" ]; } && return
            gp_locked=''
        else
            gp_clock
            if [ -z "$gp_waited" ] || [ $((gp_now - gp_since)) -ge 2000 ]; then
                gp_bytes "$gp_part"
                gp_say "waiting: another process is writing $gp_part ($gp_n bytes so far)"
                gp_since=$gp_now
            fi
            gp_waited=yes
            sleep 1
        fi
        exec 8>&-
    done
}

gp_commit() { # The right bytes are in PATH.part. The rename is the last thing that counts.
    rm -f -- "$gp_part.piece"
    gp_record "$gp_part"
    chmod 0644 "$gp_part"
    sync "$gp_part" 2>/dev/null || sync
    gp_locked=''
    mv -f -- "$gp_part" "$gp_path"
}
