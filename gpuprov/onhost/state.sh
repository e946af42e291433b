#!/bin/sh
# Decide where gpuprov keeps its own state on this host, with builtins only (no process).
# In:  gp_state, the inventory's paths.state, or empty.   Out: gp_state, absolute.
# shellcheck disable=SC2034,SC2088  # gp_state is read by what follows; the tilde is the inventory's, taken literally
case ${gp_state:-} in
'') if [ -w /var/lib ]; then gp_state=/var/lib/gpuprov; else gp_state=${XDG_STATE_HOME:-$HOME/.local/state}/gpuprov; fi ;;
'~/'*) gp_state=$HOME/${gp_state#'~/'} ;;
esac
