#!/bin/sh
# Fetch from one address into PATH.part, once, and say in one word how it went. Text before it: download_common.sh.
# In:  gp_url, gp_host (what people may see of it), gp_connect and gp_stall (seconds).
# Out: gp_class, gp_reason (words).  got: the tool is content;  restart: no ranges here, begin anew;  whole: there is
#      nothing after what is here;  dropped, server: worth another try;  way, notfound, html, certificate, denied,
#      redirects, larger, tool: not;  tls: reached, and no TLS came about.
# shellcheck disable=SC2154,SC2034

gp_tools() { # Out: gp_tool: curl, gnuwget, busywget, or nothing; gp_wget, its words.
    gp_tool='' gp_wget=wget
    if command -v curl >/dev/null; then
        gp_tool=curl
    elif command -v wget >/dev/null; then
        gp_tool=busywget
        case $(wget --version 2>/dev/null | head -n 1) in *GNU*) gp_tool=gnuwget ;; esac
    elif command -v busybox >/dev/null && busybox wget --help >/dev/null 2>&1; then
        gp_tool=busywget gp_wget='busybox wget'
    fi
}

gp_last() { # The last line, without what addresses may hold of secrets.
    sed -e 's#//[^/@[:space:]]*@#//#g' -e 's#?[^[:space:]]*##g' | tail -n 1 | tr -d '\000-\037\177' | cut -c 1-200
}

gp_complaint() { # Out: gp_words, the tool's last line.
    # -S makes wget indent headers; they are not what it complains of.
    gp_words=$(sed -e '/^[[:space:]]*$/d' -e '/^  /d' complaint | gp_last)
    gp_words=${gp_words:-its tool ended with status $gp_rc}
}

gp_watch() { # Follow the tool until it ends; end it when nothing moves. Out: gp_rc; gp_cut: stalled, larger, norange or
# nothing.
    gp_cut='' gp_seen=$gp_from gp_told=0 gp_beat=1
    gp_clock
    gp_moved=$gp_now
    while kill -0 "$gp_child" 2>/dev/null; do
        gp_nap
        gp_bytes "$gp_part"
        gp_clock
        [ "$gp_n" -eq "$gp_seen" ] || gp_seen=$gp_n gp_moved=$gp_now
        if [ "$gp_size" -gt 0 ] && [ "$gp_n" -gt "$gp_size" ]; then gp_cut=larger
        elif [ $((gp_now - gp_moved)) -ge $((gp_stall * 100)) ]; then gp_cut=stalled
        elif [ "$gp_tool" = gnuwget ] && [ "$gp_from" -gt 0 ] && [ "$gp_n" -eq "$gp_from" ] &&
            [ $((gp_now - gp_moved)) -ge 100 ] && grep -q 'HTTP/[0-9.]* 200' complaint; then
            # It would read what is here already once more, in silence, and throw it away.
            gp_cut=norange
        fi
        if [ -n "$gp_cut" ]; then
            kill -KILL "$gp_child" 2>/dev/null || :
            break
        fi
        gp_tell downloading "$gp_n" "$gp_host"
    done
    gp_end_child
    gp_bytes "$gp_part"
}

gp_is_page() { # Is what came an HTML page? Then it goes. Out: gp_class, gp_reason.
    gp_bytes "$gp_part"
    [ "$gp_n" -le 1048576 ] || return 1
    gp_head=$(head -c 1024 "$gp_part" | tr -d '\000' | tr '\n\r\t' '   ' | tr '[:upper:]' '[:lower:]')
    # Blanks and a byte order mark may come first.
    gp_head=${gp_head#"$(printf '\357\273\277')"}
    gp_head=${gp_head#"${gp_head%%[! ]*}"}
    case $gp_head in '<!doctype html'* | '<html'*) ;; *) return 1 ;; esac
    gp_title=$(head -c 65536 "$gp_part" | tr -d '\000' | tr '\n\r\t' '   ' |
        sed -n 's/.*<[Tt][Ii][Tt][Ll][Ee][^>]*>[ ]*\([^<]*\)<.*/\1/p' | tr -d '\000-\037\177' | cut -c 1-80)
    gp_class=html gp_reason="it sent an HTML page instead of the file${gp_title:+, titled \"$gp_title\"}"
    : >"$gp_part"
}

gp_disk() { # The tool could not write. Why?
    ! gp_mount || [ "$gp_free" -ge 1048576 ] ||
        gp_fail 78 "no space left for $gp_path: $gp_on has $gp_free bytes free, and $gp_n bytes had come"
    gp_fail 79 "$gp_part cannot be written: $gp_words"
}

gp_by_code() { # The server answered with an error.
    gp_reason="it answered with HTTP status $gp_code"
    case $gp_code in
    404 | 410) gp_class=notfound ;;
    416) gp_class=whole gp_reason='it has nothing after what was fetched' ;;
    408 | 425 | 429 | 5??) gp_class=server ;;
    *) gp_class=denied ;;
    esac
}

gp_untrusted() {
    gp_class=certificate
    gp_reason="its certificate was not accepted ($gp_words); the clock of this host says $(date -u '+%Y-%m-%d %H:%M UTC')"
}

gp_plain() { # There is a way, and what answers does not speak TLS (a plain http port, mostly)? Then gp_class, gp_reason.
    gp_hit=$(grep -i -e 'wrong version number' -e 'packet length too long' -e 'unknown protocol' -e 'http request' \
        -e 'unexpected TLS packet' -e 'bad TLS record' -e 'handshake fail' -e 'SSL connection timeout' complaint | gp_last)
    [ -z "$gp_hit" ] || gp_class=tls gp_reason="no TLS there: $gp_hit"
}

gp_curl() {
    # The address goes by stdin: an argument could be read by everybody on the host.  -N: what came is in the file at
    # once, and not lost in curl's memory when it must be ended.
    printf 'url = "%s"\n' "$gp_url" | curl -q -sS -f -L -g -N --max-redirs 10 --proto =http,https --proto-redir =http,https \
        --connect-timeout "$gp_connect" -C - -o "$gp_part" -w '%{http_code} %{content_type}\n' -K - >said 2>complaint &
    gp_child=$!
    gp_watch
    gp_complaint
    read -r gp_code gp_type <said || :
    case $gp_rc in
    0) gp_class=got ;;
    1 | 3 | 4) gp_class=tool gp_reason="the curl of this host cannot fetch it: $gp_words" ;;
    # Not one byte of an answer: reset by what stands between, or a tunnel that was refused.
    5 | 6 | 7 | 35 | 97) gp_class=way gp_reason="no way there: $gp_words" && gp_plain ;;
    22) gp_by_code ;;
    23) gp_disk ;;
    28)
        gp_class=dropped gp_reason="the line broke off: $gp_words"
        [ "$gp_code" != 000 ] || { gp_class=way gp_reason="no way there: $gp_words" && gp_plain; }
        ;;
    33 | 36) gp_class=restart gp_reason='it cannot go on in the middle of a file' ;;
    47) gp_class=redirects gp_reason='it redirects without end' ;;
    51 | 53 | 54 | 58 | 59 | 60 | 66 | 77 | 80 | 82 | 83 | 90 | 91) gp_untrusted ;;
    56)
        gp_class=dropped gp_reason="the line broke off: $gp_words"
        case $gp_words in *CONNECT*) gp_class=way gp_reason="the proxy gives no way there: $gp_words" ;; esac
        ;;
    *) gp_class=dropped gp_reason="the line broke off: $gp_words" ;;
    esac
}

gp_any_wget() {
    if [ "$gp_tool" = gnuwget ]; then
        # Its home is the scratch folder: neither the settings of a person count, nor is anything left there.
        HOME=$PWD wget -nv -S -c -O "$gp_part" --max-redirect=10 --tries=1 --dns-timeout="$gp_connect" \
            --connect-timeout="$gp_connect" --read-timeout="$gp_stall" "$gp_url" >said 2>complaint &
    else
        # shellcheck disable=SC2086  # two words, maybe
        $gp_wget -q -c -O "$gp_part" "$gp_url" >said 2>complaint &
    fi
    gp_child=$!
    gp_watch
    gp_complaint
    gp_code=$(sed -n 's/.*HTTP\/[0-9.]* \([0-9][0-9][0-9]\).*/\1/p' complaint | tail -n 1)
    gp_type=$(sed -n 's/^ *[Cc]ontent-[Tt]ype: *//p' complaint | tail -n 1)
    gp_code=${gp_code:-000}
    if [ "$gp_rc" -eq 0 ]; then
        gp_class=got
        return
    fi
    # The order counts: the last line of a refused certificate speaks of connecting, for one.
    gp_all=$(tr '[:upper:]' '[:lower:]' <complaint)
    case $gp_all in
    *'no space left'* | *'cannot write to'* | *'write error'* | *': permission denied'*) gp_disk ;;
    *certificate*) gp_untrusted ;;
    *redirection* | *'redirects'*) gp_class=redirects gp_reason='it redirects without end' ;;
    *'not an http or ftp url'* | *'unsupported scheme'* | *'https support not compiled in'*)
        gp_class=tool gp_reason="the wget of this host cannot fetch it: $gp_words"
        ;;
    *)
        if [ "$gp_code" -ge 400 ]; then
            gp_by_code
            return
        fi
        gp_class=dropped gp_reason="the line broke off: $gp_words"
        [ "$gp_code$gp_n" != "000$gp_from" ] || gp_class=way gp_reason="nothing came: $gp_words"
        case $gp_all in
        *'unable to resolve'* | *'bad address'* | *refused* | *'no route'* | *unreachable* | *"can't connect"* | \
            *'unable to establish ssl'* | *'proxy tunneling failed'* | *'failed: connection timed out'*)
            gp_class=way gp_reason="no way there: $gp_words"
            ;;
        esac
        gp_plain
        ;;
    esac
}

gp_copy() { # A file of this host, or of what is mounted on it.
    gp_source=${gp_url#file://} gp_want=$gp_size
    if [ ! -f "$gp_source" ]; then
        gp_class=notfound gp_reason="there is no file $gp_source"
        return
    fi
    gp_bytes "$gp_source"
    if [ "$gp_want" -gt 0 ] && [ "$gp_n" -ne "$gp_want" ]; then
        gp_class=truncated gp_reason="$gp_source has $gp_n bytes instead of $gp_want"
        [ "$gp_n" -lt "$gp_want" ] || gp_class=larger
        return
    fi
    cp -- "$gp_source" "$gp_part" 2>complaint &
    gp_child=$! gp_from=0
    gp_watch
    gp_complaint
    gp_class=got
    [ "$gp_rc" -eq 0 ] || [ -n "$gp_cut" ] || gp_disk
}

gp_fetch() {
    gp_bytes "$gp_part"
    gp_from=$gp_n gp_cut='' gp_reason='' gp_code=000 gp_type=''
    case $gp_url in
    file://*) gp_copy ;;
    *)
        case $gp_tool in
        curl) gp_curl ;;
        *wget) gp_any_wget ;;
        *) gp_class=tool gp_reason='this host has neither curl nor wget' ;;
        esac
        ;;
    esac
    case $gp_cut in
    norange) gp_class=restart gp_reason='it cannot go on in the middle of a file' ;;
    larger) gp_class=larger gp_reason="it sends more than the $gp_size bytes of the file" ;;
    stalled)
        gp_class=dropped gp_reason="it stood still for $gp_stall s"
        [ "$gp_n" -gt "$gp_from" ] || gp_class=way gp_reason="nothing came for $gp_stall s"
        ;;
    esac
    # A page instead of the rest of a file: the rest may still come, so what is here stays.
    case $gp_class-$gp_from-$gp_type in
    got-0-* | restart-0-*) ;;
    got-*-text/html* | restart-*-text/html*) gp_class=html gp_reason='it sent an HTML page instead of the rest' ;;
    esac
}
