#!/bin/sh
# Ask a program, and show the end of what it says. Nothing is changed, and the status is always 0.
# gp_answer SECONDS COMMAND...: Out: its output, both streams; then, on a line of its own: status N (137: ended here)
gp_answer() {
  gp_seconds=$1
  shift
  if command -v timeout >/dev/null 2>&1; then set -- timeout -s KILL "$gp_seconds" "$@"; fi
  {
    # A program that aborts would leave a file. All three shells have -c.
    # shellcheck disable=SC3045
    ulimit -c 0 || :
    gp_rc=0
    "$@" 2>&1 || gp_rc=$?
    printf '\nstatus %s\n' "$gp_rc"
  } | tail -c 16384
}
