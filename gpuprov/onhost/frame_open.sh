#!/bin/sh
# The exec command's second half: say READY on both streams, then be the shell that reads frames. The same rules for
# its text as in frame_login.sh hold.
# In: $0 the shell, $1 $2 the halves of the READY mark, $3 root, sudo or none, $4 why none.
# Out: "ready PRIVILEGE PGRP SESSION WHY" (pgrp and session 0 where /proc does not say).
# shellcheck disable=SC2086
LC_ALL=C; export LC_ALL; PATH=${PATH:-/usr/local/bin:/usr/bin:/bin};
for d in /usr/local/sbin /usr/sbin /sbin; do case :$PATH: in *:$d:*) ;; *) PATH=$PATH:$d ;; esac; done; export PATH;
a=$1; b=$2; p=$3; w=$4; s=; read -r s 2>/dev/null </proc/$$/stat; set -f; set -- $s; g=${5:-0}; s=${6:-0}; set -- $w;
printf "\n%s%s ready\n" "$a" "$b" >&2; printf "\n%s%s ready %s %s %s %s\n" "$a" "$b" "$p" "$g" "$s" "$*";
exec "$0" -s
