#!/bin/sh
# Tell for each file that leads a shell to a profile script whether its block is there; builtins only.
# In:  gp_etc, gp_name; gp_bash, gp_zsh: what the block holds between its markers.
# Out: one line a file: FILE needed|unneeded none|same|other|broken
#      (broken: a marker without its partner; other: another content, or several blocks)
# Status 1: a file could not be read.
# shellcheck disable=SC2154  # the variables are set by what precedes
gp_look() { # file, wanted content, needed
  gp_count=0 gp_open='' gp_odd='' gp_text=''
  if [ -e "$gp_etc/$1" ]; then
    if [ ! -f "$gp_etc/$1" ] || [ ! -r "$gp_etc/$1" ]; then
      printf '%s cannot be read\n' "$gp_etc/$1" >&2
      exit 1
    fi
    while IFS= read -r gp_line || [ -n "$gp_line" ]; do
      case $gp_line in
      "# BEGIN gpuprov $gp_name")
        [ -z "$gp_open" ] || gp_odd=yes
        gp_open=yes gp_count=$((gp_count + 1)) gp_text=''
        ;;
      "# END gpuprov $gp_name")
        [ -n "$gp_open" ] || gp_odd=yes
        gp_open=''
        ;;
      *) [ -z "$gp_open" ] || gp_text="$gp_text${gp_text:+|}$gp_line" ;;
      esac
    done <"$gp_etc/$1"
    [ -z "$gp_open" ] || gp_odd=yes
  fi
  case $gp_odd$gp_count in
  yes*) gp_state=broken ;;
  0) gp_state=none ;;
  1) if [ "$gp_text" = "$2" ]; then gp_state=same; else gp_state=other; fi ;;
  *) gp_state=other ;;
  esac
  printf '%s %s %s\n' "$1" "$3" "$gp_state"
}
gp_needed=unneeded
if command -v bash >/dev/null 2>&1; then gp_needed=needed; fi
gp_look bash.bashrc "$gp_bash" "$gp_needed"
gp_needed=unneeded
# A zsh that was built without the distribution's folder does not read it.
if [ -d "$gp_etc/zsh" ] && command -v zsh >/dev/null 2>&1; then gp_needed=needed; fi
gp_look zsh/zprofile "$gp_zsh" "$gp_needed"
gp_look zsh/zshrc "$gp_zsh" "$gp_needed"
