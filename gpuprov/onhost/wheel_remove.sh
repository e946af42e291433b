#!/bin/sh
# Take a wheel that we put there out of an environment. Text before it: job_head.sh, wheel_env.sh.
# In:  gp_marker
# shellcheck disable=SC2154  # the variables are set by what precedes
if [ -x "$gp_py" ]; then
  gp_pip uninstall -y "$gp_name" >"$gp_work/uninstall.log" 2>&1 || gp_stop 14 "$gp_name could not be taken out of $gp_prefix: $(tail -n 1 "$gp_work/uninstall.log")"
fi
rm -f "$gp_marker"
