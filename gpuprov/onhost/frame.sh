#!/bin/sh
# Defined once in the persistent shell: what runs a frame.
# In: _gp_inner, the text of frame_sections.sh; _gp_sh, the shell (/bin/sh).
#   _gp_frame A B DEADLINE LENGTH SCRIPT BEFORE PACKED
#     A B: the halves of this frame's mark; LENGTH: of SCRIPT in bytes; PACKED: y when SCRIPT is gzip in base64
# A host that cannot unpack finds another length and says so: then the controller sends the frame as it is.
# Marks on both streams: "[ before", "] before STATUS", "end STATUS UPTIME UPTIME" (seconds before and after), "garbled".
#
# A `before` that fails is a "no": the frame ends there, and its script does not run.
# `before` runs in a function of its own, so that a `return` in it does not skip the end mark, and what it set with
# `set -eu` must not end this shell later. The frame gets none of this shell's descriptors 3-9: a lock held on one would
# otherwise live as long as whatever the frame leaves behind (a function instead of the doubled lines would keep a
# copy of them in a process of its own). GPUPROV_FRAME is how its processes are found again.
# Old busybox timeouts have other options: then there is none, and the controller's timer ends the frame.
# shellcheck disable=SC2154
_gp_mark() {
  printf '\n%s%s %s\n' "$_gp_a" "$_gp_b" "$1"
  printf '\n%s%s %s\n' "$_gp_a" "$_gp_b" "$1" >&2
}
_gp_now() {
  _gp_u=0
  read -r _gp_u _gp_x 2>/dev/null </proc/uptime
}
_gp_before() { eval "$_gp_p"; }
_gp_limit=
if timeout -k 1 1 true </dev/null >/dev/null 2>&1; then _gp_limit=y; fi
_gp_frame() {
  _gp_a=$1 _gp_b=$2 _gp_n=$3 _gp_s=$5 _gp_p=$6
  if [ "$7" ]; then
    _gp_s=$({ printf '%s' "$_gp_s" | base64 -d | gzip -dc; } 2>/dev/null)
  fi
  if [ ${#_gp_s} -ne "$4" ]; then
    _gp_mark garbled
    return 0
  fi
  set --
  export GPUPROV_FRAME="$_gp_a"
  if [ -n "$_gp_p" ]; then
    _gp_mark '[ before'
    _gp_before </dev/null
    _gp_r=$?
    _gp_mark "] before $_gp_r"
    set +eu
    if [ $_gp_r -ne 0 ]; then
      _gp_now
      _gp_mark "end 0 $_gp_u $_gp_u"
      return 0
    fi
  fi
  _gp_now
  _gp_t=$_gp_u
  if [ "$_gp_limit" ]; then
    printf '%s' "$_gp_s" | timeout -k 5 "$_gp_n" \
      "$_gp_sh" -c "$_gp_inner" sh "$_gp_a" "$_gp_b" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
  else
    printf '%s' "$_gp_s" |
      "$_gp_sh" -c "$_gp_inner" sh "$_gp_a" "$_gp_b" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
  fi
  _gp_r=$?
  _gp_s=
  _gp_now
  _gp_mark "end $_gp_r $_gp_t $_gp_u"
}
