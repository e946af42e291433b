#!/bin/sh
# Write files so that a reader sees the old one or the new one, whole, and never anything between.

# gp_move TEMP PATH: rename over what is there, a link to a folder included (which a bare mv would follow).
gp_move() {
  if [ -d "$2" ] && [ ! -L "$2" ]; then
    echo "$2 is a folder; it is not replaced by a file" >&2
    return 1
  fi
  mv -fT -- "$1" "$2"
}

# gp_finish TEMP PATH MODE OWNER GROUP: TEMP holds the content; give it mode and owner, sync, rename.
# Empty OWNER and GROUP keep what a file that is there already has.
gp_finish() {
  if [ -n "$4$5" ]; then
    chown -- "$4${5:+:$5}" "$1" || return
  elif [ -f "$2" ] && [ ! -L "$2" ]; then
    # a plain user cannot give a file away, and need not when it is his own
    gp_own=$(stat -c %u:%g "$2")
    [ "$gp_own" = "$(stat -c %u:%g "$1")" ] || chown -- "$gp_own" "$1" || return
  fi
  chmod -- "$3" "$1" && { sync -- "$1" 2>/dev/null || sync; } && gp_move "$1" "$2"
}

# gp_put TEMP PATH MODE OWNER GROUP <base64
gp_put() {
  if (umask 077 && base64 -d >"$1") && gp_finish "$@"; then return 0; fi
  rm -f -- "$1"
  return 1
}
