#!/bin/sh
# Put a marked block at the top of files that shells read, or take it out again; all else stays byte for byte.
# In:  gp_etc, gp_name, gp_files (relative to gp_etc, no blanks in them); gp_present, "yes" or empty;
#      gp_bash, gp_zsh: what the block holds between its markers.
# At the top, because bash.bashrc may return early, because a last line without a newline then stays one,
# and because blocks come and go in any order without touching each other.
# shellcheck disable=SC2154  # the variables are set by what precedes
set -eu
LC_ALL=C
export LC_ALL
gp_made='# Made by gpuprov; goes with its last block.'
gp_begin="# BEGIN gpuprov $gp_name" gp_end="# END gpuprov $gp_name"
gp_new=''
trap '[ -z "$gp_new" ] || rm -f "$gp_new"' EXIT

gp_edit() { # file, content of the block
  gp_file=$1
  # What a link points to is edited, so that the link stays one.
  if [ -L "$gp_file" ]; then gp_file=$(readlink -f "$gp_file"); fi
  if [ ! -e "$gp_file" ] && [ "$gp_present" != yes ]; then return 0; fi
  # One name for ever: what a killed run left behind is written over by the next.
  gp_new=$gp_file.gpuprov-new
  if [ -e "$gp_file" ]; then
    # grep ends with 1 when it counts none.
    gp_begins=$(grep -cxF "$gp_begin" "$gp_file") || [ "$gp_begins" = 0 ]
    gp_ends=$(grep -cxF "$gp_end" "$gp_file") || [ "$gp_ends" = 0 ]
    if [ "$gp_begins" != "$gp_ends" ]; then
      printf '%s: BEGIN and END of gpuprov %s do not make pairs\n' "$gp_file" "$gp_name" >&2
      exit 1
    fi
    cp -p "$gp_file" "$gp_new" # for its mode and owner
  else
    printf '%s\n' "$gp_made" >"$gp_new"
    chmod 0644 "$gp_new"
  fi
  {
    if [ "$gp_present" = yes ]; then printf '%s\n' "$gp_begin" "$2" "$gp_end"; fi
    if [ -e "$gp_file" ]; then sed "/^$gp_begin\$/,/^$gp_end\$/d" "$gp_file"; else printf '%s\n' "$gp_made"; fi
  } >"$gp_new"
  if [ "$gp_present" != yes ] && [ "$(cat "$gp_new")" = "$gp_made" ]; then
    rm -f "$gp_file" "$gp_new"
    return 0
  fi
  mv -f "$gp_new" "$gp_file"
}

for gp_each in $gp_files; do
  case $gp_each in
  zsh/*) gp_edit "$gp_etc/$gp_each" "$gp_zsh" ;;
  *) gp_edit "$gp_etc/$gp_each" "$gp_bash" ;;
  esac
done
