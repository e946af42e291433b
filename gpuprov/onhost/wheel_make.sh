#!/bin/sh
# Bring a wheel into an environment: from the cache, else the project's own wheel, else by building it.
# Text before it: job_head.sh, wheel_env.sh, wheel_build.sh, wheel_install.sh.
# In:  gp_ready  the project's own wheel on this host, or empty
# Ends with 0, or
#           11  no space, or no right to write in the cache
#           12  something is missing, or is not what the wheel is for
#           13  it could not be built
#           14  it was built, and does not work
#           15  its source could not be fetched
# shellcheck disable=SC2154  # the variables are set by what precedes
gp_check_env
if gp_cached; then
  gp_say "found $gp_name $gp_version for this torch, Python and compiler in $gp_cache/wheels"
  if gp_try "$gp_wheel"; then
    gp_commit "cache"
    exit 0
  fi
  rm -rf "${gp_cache:?}/wheels/$gp_key"
  gp_say "it is built anew"
fi
if [ -n "$gp_ready" ]; then
  [ -f "$gp_ready" ] || gp_stop 12 "the wheel $gp_ready is not there"
  if gp_try "$gp_ready"; then
    gp_keep "$gp_ready"
    gp_commit "release wheel"
    exit 0
  fi
  gp_say "the project's own wheel does not serve here, so that it is built"
fi
gp_build
gp_keep "$gp_wheel"
gp_try "$gp_wheel" || gp_stop 14 "$gp_name $gp_version was built, and does not work"
gp_commit "built"
