#!/bin/sh
# Answer what probes ask for: one process per command for all of them, one line per argument, in order.
#   -            absent
#   ?REASON      it could not be looked at
#   anything else: the answer (see ASK_COMMANDS in gpuprov/model.py)
# Names beginning with gp_ are ours.  Nothing here writes.

# $1 does not seem to be there: say so, unless a folder on the way is closed to us.
gp_absent() {
  gp_d=${1%/*}
  while [ -n "$gp_d" ] && [ ! -e "$gp_d" ] && [ ! -L "$gp_d" ]; do gp_d=${gp_d%/*}; done
  if [ -d "${gp_d:-/}" ] && [ ! -x "${gp_d:-/}" ]; then
    printf '?no permission to look into %s\n' "$gp_d"
  else
    echo -
  fi
}

gp_test_stat() { [ -e "$1" ] || [ -L "$1" ]; }
gp_run_stat() { stat -c '%F|%a|%u|%g|%U|%G|%s|%Y|%Z|%i' "$@"; }
gp_else_stat() { gp_absent "$1"; }

gp_test_readlink() { [ -L "$1" ]; }
gp_run_readlink() { readlink "$@"; }
gp_else_readlink() { gp_absent "$1"; }

gp_test_sha256sum() { [ -f "$1" ] && [ ! -L "$1" ] && [ -r "$1" ]; }
# sha256sum marks with a backslash the sum of a file whose name it had to escape
gp_run_sha256sum() { sha256sum "$@" | while read -r gp_sum _; do printf '%s\n' "${gp_sum#\\}"; done; }
gp_else_sha256sum() {
  if [ -f "$1" ] && [ ! -L "$1" ]; then echo '?no permission to read it'; else gp_absent "$1"; fi
}

# gp_ask COMMAND ARG...: the arguments that pass the test go to one process, whose lines are dealt out in
# order.  Should their number not fit (a link's target with a newline, a file that vanished meanwhile), each
# is asked by itself, and one that still gives no single line is called unseen.
gp_ask() {
  gp_cmd=$1
  shift
  if ! command -v "$gp_cmd" >/dev/null; then
    for gp_arg; do printf '?this host has no %s command (GNU coreutils or busybox has it)\n' "$gp_cmd"; done
    return
  fi
  gp_n=0 gp_words='' gp_i=0
  for gp_arg; do
    gp_i=$((gp_i + 1))
    if "gp_test_$gp_cmd" "$gp_arg"; then gp_n=$((gp_n + 1)) gp_words="$gp_words \"\${$gp_i}\""; fi
  done
  gp_out='' gp_got=0
  if [ "$gp_n" -gt 0 ]; then
    # shellcheck disable=SC2086  # words such as "${3}", made above from numbers alone
    gp_out=$(eval "gp_run_$gp_cmd $gp_words" 2>/dev/null) || gp_out=
    gp_nl='
'
    gp_rest=$gp_out
    [ -z "$gp_rest" ] || gp_got=1
    while [ "${gp_rest#*"$gp_nl"}" != "$gp_rest" ]; do gp_rest=${gp_rest#*"$gp_nl"} gp_got=$((gp_got + 1)); done
  fi
  for gp_arg; do
    if ! "gp_test_$gp_cmd" "$gp_arg"; then
      "gp_else_$gp_cmd" "$gp_arg"
    elif [ "$gp_got" -eq "$gp_n" ]; then
      printf '%s\n' "${gp_out%%"$gp_nl"*}"
      gp_out=${gp_out#*"$gp_nl"}
    else
      gp_one=$("gp_run_$gp_cmd" "$gp_arg" 2>&1) || gp_one="?${gp_one:-it could not be read}"
      case $gp_one in
      '') echo '?it gave no answer' ;;
      *"$gp_nl"*) echo '?the answer has more than one line' ;;
      *) printf '%s\n' "$gp_one" ;;
      esac
    fi
  done
}

# dpkg-query leaves out what it does not know, and may name one package for two architectures
gp_ask_dpkg() {
  if ! command -v dpkg-query >/dev/null; then
    for gp_arg; do echo '?this host has no dpkg-query (not a Debian or Ubuntu host)'; done
    return
  fi
  # shellcheck disable=SC2016  # ${...} is dpkg-query's
  gp_out=$(dpkg-query -W -f '|${binary:Package}|${Package}|${db:Status-Abbrev}|${Version}|${Architecture}\n' "$@" 2>/dev/null)
  for gp_arg; do
    gp_line=
    case $gp_out in
    *"|$gp_arg|"*) gp_line=${gp_out#*"|$gp_arg|"} ;;
    esac
    gp_line=${gp_line%%"
"*}
    # the first name matched was either "package:arch", followed by the bare name, or the bare name itself
    case $gp_line in
    '') echo - ;;
    *'|'*'|'*'|'*) printf '%s\n' "${gp_line#*'|'}" ;;
    *) printf '%s\n' "$gp_line" ;;
    esac
  done
}

# The folder above, as far as it is there, is resolved; the rest of the path is kept.
gp_ask_real() {
  gp_words='' gp_n=0
  for gp_arg; do
    gp_d=${gp_arg%/*}
    while [ -n "$gp_d" ] && [ ! -d "$gp_d" ]; do gp_d=${gp_d%/*}; done
    gp_n=$((gp_n + 1))
    eval "gp_above_$gp_n=\${gp_d:-/}"
    gp_words="$gp_words \"\$gp_above_$gp_n\""
  done
  # shellcheck disable=SC2086  # words such as "$gp_above_3", made above from numbers alone
  gp_out=$(eval "readlink -f $gp_words" 2>/dev/null) || gp_out=
  gp_i=0
  for gp_arg; do
    gp_i=$((gp_i + 1))
    eval "gp_d=\$gp_above_$gp_i"
    gp_line=${gp_out%%"
"*}
    gp_out=${gp_out#*"
"}
    case $gp_line in
    /*) printf '%s/%s\n' "${gp_line%/}" "${gp_arg#"${gp_d%/}/"}" ;;
    *) echo '?the folder above it could not be resolved' ;;
    esac
  done
}

gp_ask_write() {
  for gp_arg; do
    gp_d=${gp_arg%/*}
    while [ -n "$gp_d" ] && [ ! -d "$gp_d" ]; do gp_d=${gp_d%/*}; done
    # shellcheck disable=SC3067  # -O is no word of POSIX, yet dash, bash and busybox all have it
    gp_u=
    # What another owns stays his: it cannot be given back to him once it was replaced
    if [ -L "$gp_arg" ]; then
      gp_u=$(stat -c %u -- "$gp_arg") || gp_u=-
      [ "$gp_u" != "$(id -u)" ] || gp_u=
    elif [ -e "$gp_arg" ] && [ ! -O "$gp_arg" ]; then
      gp_u=-
    fi
    if [ -n "$gp_u" ] && [ -k "${gp_d:-/}" ] && [ ! -O "${gp_d:-/}" ]; then
      echo no
    elif [ -w "${gp_d:-/}" ] && [ -x "${gp_d:-/}" ]; then
      if [ -n "$gp_u" ]; then echo theirs; else echo above; fi
    elif [ ! -w "$gp_arg" ] && [ ! -O "$gp_arg" ]; then
      echo no
    elif [ -d "$gp_arg" ]; then
      echo folder
    else
      echo file
    fi
  done
}

gp_ask_have() {
  for gp_arg; do
    gp_one=$(command -v "$gp_arg") || gp_one=-
    printf '%s\n' "${gp_one:--}"
  done
}

gp_ask_stat() { gp_ask stat "$@"; }
gp_ask_readlink() { gp_ask readlink "$@"; }
gp_ask_sha256sum() { gp_ask sha256sum "$@"; }
