#!/bin/sh
# Let go of the host's lock. Evaluated by the persistent shell itself, as lock.sh is. Text before it: state.sh.
# In: gp_state, gp_run. Another's lock is left alone.
# shellcheck disable=SC2154
(
    read -r gp_orun _ _ _ gp_oshell _ <"$gp_state/owner"
    [ "$gp_orun" = "$gp_run" ] && [ "$gp_oshell" = $$ ] || exit 0
    rm -f "$gp_state/owner" "$gp_state/beat"
    rmdir "$gp_state/lock.d"
) </dev/null 2>/dev/null
exec 8>&-
