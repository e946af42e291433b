#!/bin/sh
# Check that every shell on this host that will read a profile script can read it. Runs nothing of it.
# In:  gp_content
# shellcheck disable=SC2154  # the variable is set by what precedes
set -eu
for gp_shell in sh bash zsh; do
  command -v "$gp_shell" >/dev/null 2>&1 || continue
  case $gp_shell in
  # zsh reads it under "emulate sh"; without -f it would read the very files that lead to the script.
  zsh) set -- zsh --emulate sh -f -n ;;
  *) set -- "$gp_shell" -n ;;
  esac
  if ! gp_said=$(printf '%s\n' "$gp_content" | "$@" 2>&1); then
    printf 'the script has a syntax error, says %s: %s\n' "$gp_shell" "$gp_said" >&2
    exit 1
  fi
done
