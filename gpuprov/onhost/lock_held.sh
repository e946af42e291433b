#!/bin/sh
# Ends with status 0 when this very shell holds the host's lock; evaluated right after lock.sh.
# In: gp_state.
# shellcheck disable=SC2154,SC3013  # -ef is no word of POSIX, yet dash, bash and busybox all have it
if command -v flock >/dev/null; then
    [ /proc/$$/fd/8 -ef "$gp_state/lock" ]
else
    gp_x=''
    { read -r _ _ _ _ gp_x _ <"$gp_state/owner"; } 2>/dev/null
    [ "$gp_x" = $$ ]
fi
