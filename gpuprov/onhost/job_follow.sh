#!/bin/sh
# Follow all jobs of one connection over one channel. Text before it: job_process.sh, job_state.sh, state.sh.
# In: gp_state, gp_follow (a folder name of this connection's own), gp_word (said once before anything else),
#     gp_jobs (name attempt offset, one a line).
# Out: records: "D name attempt offset length" and that many bytes | "E name attempt status how size" ended |
#     "X name attempt - - size" died | "O name attempt - - size" orphaned | "B" nothing new. Size: of its whole log.
# Ends with 3 when it cannot note what it follows, such as on a full disk: then jobs are polled.
# shellcheck disable=SC2154
gp_mine=$gp_state/follow/$gp_follow
gp_host

# Followers whose process is gone leave a folder behind.
for gp_path in "$gp_state/follow/"*; do
    [ -d "$gp_path" ] || continue
    gp_opid='' gp_ostart='' gp_oboot=''
    { read -r gp_opid gp_ostart gp_oboot <"$gp_path/.pid"; } 2>/dev/null
    gp_same "${gp_opid:-0}" "$gp_ostart" "$gp_oboot" || rm -rf "$gp_path"
done
mkdir -p "$gp_state/follow" || exit 3
mkdir "$gp_mine.t" || exit 3
trap 'rm -rf "$gp_mine" "$gp_mine.t"' EXIT
trap 'exit 0' HUP INT TERM
gp_process $$
gp_write "$gp_mine.t/.pid" "$$ $gp_pstart $gp_boot" || exit 3
printf '%s\n' "$gp_jobs" | while read -r gp_name gp_n gp_off; do
    [ -z "$gp_name" ] || gp_write "$gp_mine.t/$gp_name" "$gp_n $gp_off ." || exit 3
done || exit 3
mv "$gp_mine.t" "$gp_mine" || exit 3
cd "$gp_state/jobs" || exit 3
printf '\n%s\n' "$gp_word"

gp_round() { # One look at all. Out: gp_busy: empty, some, or more (there is more to send at once).
    gp_list='' gp_logs=''
    for gp_path in "$gp_mine"/*; do
        gp_name=${gp_path##*/}
        case $gp_name in '*' | *.t) continue ;; esac
        gp_dot=''
        { read -r gp_n gp_off gp_dot <"$gp_path"; } 2>/dev/null
        [ "$gp_dot" = . ] || continue
        # Its fate first and the size of its log afterwards: then nothing written before the end is missed.
        gp_fate "$PWD/$gp_name" "$gp_n"
        gp_list="$gp_list$gp_name|$gp_n|$gp_off|$gp_fate
"
        gp_logs="$gp_logs $gp_name/$gp_n/log"
    done
    [ -n "$gp_list" ] || return 0
    # shellcheck disable=SC2086  # no blanks in slots' names
    gp_sizes=$(wc -c $gp_logs 2>/dev/null)
    IFS='
'
    for gp_path in $gp_list; do
        IFS='|'
        # shellcheck disable=SC2086
        set -- $gp_path
        IFS=$gp_blanks
        gp_path=$1/$2/log gp_size=0
        case $gp_sizes in
        *" $gp_path"*) gp_size=${gp_sizes%%" $gp_path"*} gp_size=${gp_size##*[!0-9]} ;;
        esac
        if gp_send "$PWD/$1" "$2" "$3" "$gp_size" 1048576; then
            gp_busy=${gp_busy:-some}
            printf '%s %s .\n' "$2" "$gp_offset" >"$gp_mine/$1" || exit 3
        fi
        if [ "$gp_offset" -lt "$gp_size" ]; then gp_busy='more'; continue; fi
        [ "$4" != running ] || continue
        rm -f "$gp_mine/$1"
        printf '%s %s %s %s %s\n' "${4%% *}" "$1" "$2" "${4#* }" "$gp_offset" || exit 0
    done
}

gp_blanks=' 	
'
gp_uptime
gp_said=$gp_up gp_idle=0
while :; do
    gp_busy=''
    [ -d "$gp_mine" ] || exit 3
    gp_round
    [ "$gp_busy" != more ] || continue
    gp_uptime
    [ -z "$gp_busy" ] || gp_idle=0 gp_said=$gp_up
    if [ $((gp_up - gp_said)) -ge 500 ]; then
        # Also how a follower learns that nobody listens any more.
        echo B || exit 0
        gp_said=$gp_up
    fi
    gp_process $$ || exit 0
    [ "$gp_pparent" = "$PPID" ] || exit 0
    gp_idle=$((gp_idle + 1))
    if [ $gp_idle -lt 10 ]; then gp_nap 1; elif [ $gp_idle -lt 50 ]; then gp_nap 2; else gp_nap 4; fi
done
