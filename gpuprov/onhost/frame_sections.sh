#!/bin/sh
# The fresh shell of one frame: reads the frame's script whole from stdin, evaluates it, says so.
# In: $1 $2 the halves of the frame's mark. The script calls, in this order:
#   _gp_prelude TEXT      once, in this shell
#   _gp_section NAME TEXT  for each section, in a subshell without positional parameters
# Marks on both streams: "begin PGRP SESSION PID", "[ NAME", "] NAME STATUS", "done".
#
# An errexit that the prelude asked for holds inside the sections and not here: one that fails must not end the rest.
# shellcheck disable=SC2317
_gp_a=$1 _gp_b=$2
_gp_mark() {
  printf '\n%s%s %s\n' "$_gp_a" "$_gp_b" "$1"
  printf '\n%s%s %s\n' "$_gp_a" "$_gp_b" "$1" >&2
}
_gp_e=
_gp_prelude() {
  _gp_c=$1
  set --
  _gp_mark '[ prelude'
  eval "$_gp_c"
  _gp_x=$?
  case $- in *e*) _gp_e='set -e
' ;; esac
  set +e
  _gp_mark "] prelude $_gp_x"
}
_gp_section() {
  _gp_mark "[ $1"
  (
    _gp_c=$2
    set --
    eval "$_gp_e$_gp_c"
  )
  _gp_mark "] $1 $?"
}
_gp_s=$(cat)
exec </dev/null
_gp_x=
read -r _gp_x 2>/dev/null </proc/$$/stat
# shellcheck disable=SC2086
set -- $_gp_x
_gp_mark "begin ${5:-0} ${6:-0} $$"
set --
eval "$_gp_s"
_gp_mark 'done'
exit 0
