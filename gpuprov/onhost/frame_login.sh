#!/bin/sh
# The exec command's first half: become root where that asks nobody anything, and start frame_open.sh. Sent as ONE
# line inside single quotes to a login shell that may be fish or csh: every line must stand when joined by blanks, and
# may hold no single quote, no exclamation mark and no backslash but that of printf's \n.
# In: $1 frame_open.sh, $2 $3 the halves of the READY mark, $4 auto or never, $5 the shell (/bin/sh).
LC_ALL=C; export LC_ALL; PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}; export PATH;
if [ "$(id -u)" = 0 ]; then exec "$5" -c "$1" "$5" "$2" "$3" root; fi;
if [ "$4" = never ]; then exec "$5" -c "$1" "$5" "$2" "$3" none unasked; fi;
if command -v sudo >/dev/null 2>&1; then :; else exec "$5" -c "$1" "$5" "$2" "$3" none missing; fi;
printf "\n%s%s sudo-asked\n" "$2" "$3";
if o=$(sudo -n -H "$5" -c : 2>&1 </dev/null); then exec sudo -n -H "$5" -c "$1" "$5" "$2" "$3" sudo; fi;
exec "$5" -c "$1" "$5" "$2" "$3" none "refused $(id -Gn) : $o"
