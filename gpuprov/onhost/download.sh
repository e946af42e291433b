#!/bin/sh
# Bring one large file to PATH: what is there already, else from mirrors in order. Restartable at any moment.
# Text before it: download_common.sh, download_fetch.sh.
# In:  what those want; gp_first (seconds of the first pause), gp_tries (fruitless tries of one mirror);
#      the mirrors as arguments: http, https, or file:// followed by a path that is taken as it is.
# Out: lines for people; while bytes move, at most one in two seconds:
#      downloading NAME DONE/TOTAL bytes (RATE MB/s) from HOST     checking NAME DONE/TOTAL bytes (RATE MB/s)
#      (without "/TOTAL" when the size is not known). At the end of a failure one line for each mirror.
# Exit statuses (of several mirrors: when it is the same for all, else 85):
#    0  the right file is at PATH
#   70  no-sources     it is not there, and there is no mirror to ask
#   71  no-tool        neither curl nor wget, or not for this kind of address
#   72  no-way         no name, no route, refused, nothing came
#   73  not-found      the server does not have it
#   74  page           it sent an HTML page
#   75  truncated      it ended too early, with the server content
#   76  wrong-digest   whole, and another file than was asked for; it is deleted
#   77  republished    the same, and two mirrors agree on what it is now
#   78  no-space       too little room on the mount
#   79  unwritable     the folder or file cannot be made, written or read
#   80  certificate    the server's certificate was not accepted
#   81  denied         the server does not give it to us
#   82  server         the server is in trouble
#   83  dropped        the line broke again and again without getting further
#   84  redirects      it redirects without end
#   85  mixed          every mirror failed, for reasons that differ
#   86  no-digest-tool sha256sum or md5sum is missing
#   87  tls            it was reached, and no TLS came about with it
# shellcheck disable=SC2154

gp_anew() { # Begin with the first byte: then every byte is this mirror's own.
    : >"$gp_part"
    gp_n=0 gp_foreign=0
}

gp_judge() { # What came of one try? Out: gp_class, gp_reason: as gp_fetch says, and ok, wrong, truncated.
    gp_bytes "$gp_part"
    case $gp_class in
    whole)
        gp_class=got
        [ "$gp_size" -eq 0 ] || gp_class=short gp_reason="it ends before byte $gp_n of $gp_size"
        ;;
    got) [ "$gp_n" -ge "$gp_size" ] || gp_class=truncated gp_reason="it ended at $gp_n of $gp_size bytes" ;;
    esac
    case $gp_class in
    got)
        if gp_right "$gp_part"; then
            gp_class=ok
        elif ! gp_is_page; then
            gp_class=wrong gp_reason="it gave a file of $gp_n bytes with $gp_found"
        fi
        ;;
    truncated | larger) gp_is_page || : ;;
    esac
}

gp_mirror() { # Out: gp_class (ok, or what went wrong), gp_reason.
    gp_bytes "$gp_part"
    # Bytes of another copy, maybe: a wrong digest then proves nothing about this one.
    gp_foreign=$gp_n gp_start=$gp_n gp_best=$gp_n gp_bad=0 gp_pause=$gp_first gp_ranges=yes
    while :; do
        gp_bytes "$gp_part"
        if [ "$gp_size" -gt 0 ] && [ "$gp_n" -gt "$gp_size" ]; then gp_anew; fi
        if [ "$gp_size" -gt 0 ] && [ "$gp_n" -eq "$gp_size" ]; then
            gp_class=got
        else
            [ -n "$gp_ranges" ] || gp_anew
            gp_space
            gp_fetch
        fi
        gp_judge
        case $gp_class in
        short) gp_class=truncated && return 0 ;;
        wrong | larger)
            gp_mixed=$gp_foreign
            gp_anew
            [ "$gp_mixed" -gt 0 ] || return 0
            gp_say "what was put together of several tries is not it; once more from the first byte"
            gp_start=0 gp_best=0
            continue
            ;;
        restart)
            if [ "$gp_from" -gt 0 ]; then
                gp_say "$gp_host: $gp_reason; again from the first byte"
                gp_ranges=''
                continue
            fi
            ;;
        dropped | server | truncated | way | tls) ;;
        *) return 0 ;;
        esac
        if [ "$gp_n" -gt "$gp_best" ]; then
            gp_best=$gp_n gp_bad=0 gp_pause=$gp_first
        else
            gp_bad=$((gp_bad + 1))
        fi
        # Where nothing ever came from, little patience: the next mirror or the controller may have it.
        gp_limit=$gp_tries
        case $gp_class in
        tls) gp_limit=2 ;;
        way) [ "$gp_best" -gt "$gp_start" ] || gp_limit=2 ;;
        truncated) gp_limit=3 ;;
        esac
        if [ "$gp_bad" -ge "$gp_limit" ]; then
            [ "$gp_class" != way ] || [ "$gp_best" -eq "$gp_start" ] || gp_class=dropped
            return 0
        fi
        gp_say "$gp_host: $gp_reason; again from byte $gp_n in $gp_pause s"
        sleep "$gp_pause"
        gp_pause=$((gp_pause * 2))
        [ $gp_pause -le 30 ] || gp_pause=30
    done
}

if gp_there; then
    gp_say "$gp_name is there already"
    [ -f "$gp_path.sha256" ] || gp_record "$gp_path" || :
    exit 0
fi
[ $# -gt 0 ] || gp_fail 70 "$gp_path is not there, and no mirror is known for it"
gp_folder
gp_was=''
[ ! -f "$gp_path" ] || gp_was=yes
gp_lock
if [ -n "$gp_waited" ] || { [ -z "$gp_was" ] && [ -f "$gp_path" ]; }; then
    if gp_there; then
        gp_say "$gp_name is there now"
        exit 0
    fi
fi

gp_tools
gp_failed='' gp_classes='' gp_sums='' gp_twice=''
for gp_url; do
    gp_host=${gp_url#*://}
    gp_host=${gp_host%%[/?#]*}
    gp_host=${gp_host##*@}
    gp_host=${gp_host:-this host}
    gp_mirror
    if [ "$gp_class" = ok ]; then
        gp_commit
        exit 0
    fi
    gp_failed="$gp_failed$gp_host: $gp_reason
"
    gp_classes="$gp_classes $gp_class"
    if [ "$gp_class" = wrong ]; then
        case " $gp_sums " in *" $gp_sum "*) gp_twice=$gp_found ;; esac
        gp_sums="$gp_sums $gp_sum"
    fi
done

printf '%s' "$gp_failed"
if [ -n "$gp_twice" ]; then
    gp_fail 77 "two mirrors agree on $gp_twice, which is not the one asked for: it was published anew, or asked for wrongly"
fi
gp_class=''
# shellcheck disable=SC2086  # a list of words
for gp_one in $gp_classes; do
    [ "${gp_class:-$gp_one}" = "$gp_one" ] || gp_one=mixed
    gp_class=$gp_one
    [ "$gp_class" != mixed ] || break
done
case $gp_class in
tool) exit 71 ;;
way) exit 72 ;;
notfound) exit 73 ;;
html) exit 74 ;;
truncated) exit 75 ;;
wrong | larger) exit 76 ;;
certificate) exit 80 ;;
denied) exit 81 ;;
server) exit 82 ;;
dropped | restart) exit 83 ;;
redirects) exit 84 ;;
tls) exit 87 ;;
*) exit 85 ;;
esac
