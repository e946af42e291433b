#!/bin/sh
# End processes and say which outlived it. Whole process groups, or what a frame left behind.
# In: gp_group     a process group, or empty
#     gp_session   with gp_tag: the session in which the frame ran; 0 for any
#     gp_tag       the frame's GPUPROV_FRAME, or empty
#     gp_wait      tenths of a second to let them end by themselves
#     gp_grace     tenths of a second between TERM and KILL, and after KILL
# Out: a line "PID STATE WCHAN NAME" for each that is still there. Status 0: all gone.
#
# Zombies do not count: in a container whose first process reaps nobody they stay for ever. `kill -- -N` fails in dash
# and busybox. The tag alone finds what made a group of its own (a nested timeout); the session leaves out jobs, which
# the frame may have started and which must live on.
# shellcheck disable=SC2154
_gp_members() {
  _gp_found=
  for _gp_d in /proc/[0-9]*; do
    _gp_i=${_gp_d#/proc/}
    [ "$_gp_i" != $$ ] || continue
    _gp_l=
    { read -r _gp_l <"$_gp_d/stat"; } 2>/dev/null || continue
    _gp_f=${_gp_l##*') '}
    # shellcheck disable=SC2086
    set -- $_gp_f
    case ${1:-Z} in Z | X) continue ;; esac
    if [ -n "$gp_group" ] && [ "${3:-}" = "$gp_group" ]; then
      :
    elif [ -n "$gp_tag" ] && { [ "$gp_session" = 0 ] || [ "${4:-}" = "$gp_session" ]; } &&
      { tr '\000' '\n' <"$_gp_d/environ" | grep -q "^GPUPROV_FRAME=$gp_tag\$"; } 2>/dev/null; then
      :
    else
      continue
    fi
    _gp_found="$_gp_found $_gp_i"
  done
}
_gp_gone() {
  _gp_k=$1
  while :; do
    _gp_members
    [ -n "$_gp_found" ] || return 0
    [ "$_gp_k" -gt 0 ] || return 1
    _gp_k=$((_gp_k - 1))
    sleep 0.1 2>/dev/null || { sleep 1 && _gp_k=$((_gp_k - 9)); }
  done
}
_gp_signal() {
  # shellcheck disable=SC2086
  kill "-$1" $_gp_found 2>/dev/null
}
if ! _gp_gone "$gp_wait"; then
  _gp_signal TERM
  if ! _gp_gone "$gp_grace"; then
    _gp_signal KILL
    _gp_gone "$gp_grace"
  fi
fi
for _gp_i in $_gp_found; do
  _gp_l=
  { read -r _gp_l <"/proc/$_gp_i/stat"; } 2>/dev/null || continue
  _gp_f=${_gp_l##*') '}
  _gp_w=
  { read -r _gp_w <"/proc/$_gp_i/wchan"; } 2>/dev/null || :
  _gp_n=${_gp_l#*'('}
  printf '%s %s %s %s\n' "$_gp_i" "${_gp_f%% *}" "${_gp_w:--}" "${_gp_n%')'*}"
done
[ -z "$_gp_found" ]
