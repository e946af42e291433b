#!/bin/sh
# The write-ahead journal: intent, backup, done.  An open intent is a file open/N of its run; it holds the
# record on its first line and then, one a line, the temporary files that may be lying about.
# In:  gp_state (absolute), gp_run (run id).
# shellcheck disable=SC2154  # both are set before this is evaluated

gp_journal=$gp_state/journal/$gp_run

# gp_begin N RECORD TEMP... -- PATH...: note what is about to be done and keep what is there.
gp_begin() {
  (umask 077 && mkdir -p "$gp_journal/open" "$gp_journal/backup/$1") || return
  gp_n=$1 gp_k=0
  printf '%s\n' "$2" >"$gp_journal/open/.$gp_n" || return
  shift 2
  while [ "$1" != -- ]; do
    printf '%s\n' "$1" >>"$gp_journal/open/.$gp_n" || return
    shift
  done
  shift
  for gp_p; do
    gp_k=$((gp_k + 1))
    gp_b=$gp_journal/backup/$gp_n/$gp_k
    printf '%s\n' "$gp_p" >"$gp_b.path" || return
    if [ -L "$gp_p" ] || [ -f "$gp_p" ]; then
      cp -a -- "$gp_p" "$gp_b.file" || return
    elif [ -d "$gp_p" ]; then
      stat -c '%a %u:%g' "$gp_p" >"$gp_b.dir" || return
    elif [ ! -e "$gp_p" ]; then
      # Not ":", whose failing redirection would end the shell
      true >"$gp_b.absent" || return
    fi
  done
  sync "$gp_journal/open/.$gp_n" 2>/dev/null || sync
  mv -f -- "$gp_journal/open/.$gp_n" "$gp_journal/open/$gp_n"
}

# gp_done N: the change is made.
gp_done() {
  gp_close "$1" "$gp_journal" "done"
}

# gp_close N FOLDER WORD: the intent is no longer open, and the log says how it ended.
gp_close() {
  if [ -f "$2/open/$1" ]; then
    read -r gp_rec <"$2/open/$1" || :
    printf '%s\t%s\t%s\n' "$3" "$1" "$gp_rec" >>"$2/log" && rm -f -- "$2/open/$1"
  fi
}

# gp_undo N: the change failed; give back what was there before.
gp_undo() {
  for gp_f in "$gp_journal/backup/$1"/*.path; do
    [ -f "$gp_f" ] || continue
    gp_b=${gp_f%.path}
    IFS= read -r gp_p <"$gp_f" || continue
    if [ -L "$gp_b.file" ] || [ -f "$gp_b.file" ]; then
      if [ ! -d "$gp_p" ] || [ -L "$gp_p" ]; then
        gp_t=${gp_p%/*}/.gpuprov-undo-$gp_run-$1
        cp -a -- "$gp_b.file" "$gp_t" && mv -fT -- "$gp_t" "$gp_p"
      fi
    elif [ -f "$gp_b.dir" ]; then
      read -r gp_mode gp_own <"$gp_b.dir"
      [ -d "$gp_p" ] || mkdir -- "$gp_p"
      chown -- "$gp_own" "$gp_p" && chmod -- "$gp_mode" "$gp_p"
    elif [ -f "$gp_b.absent" ]; then
      if [ -d "$gp_p" ] && [ ! -L "$gp_p" ]; then rmdir -- "$gp_p" 2>/dev/null || :; else rm -f -- "$gp_p"; fi
    fi
  done
  gp_close "$1" "$gp_journal" undone
}

# gp_recover N...: close what was left open (by earlier runs, or by this one before its line was lost; N... are
# ours and still under way), and print one line for each: run, N, record.
# Every write is a rename, so what was begun either took place or did not; the probes say which.
gp_recover() {
  for gp_f in "$gp_state"/journal/*/open/*; do
    [ -f "$gp_f" ] || continue
    gp_dir=${gp_f%/open/*}
    [ "${gp_dir##*/}" != "$gp_run" ] || case " $* " in *" ${gp_f##*/} "*) continue ;; esac
    {
      IFS= read -r gp_rec || :
      while IFS= read -r gp_t; do
        case $gp_t in */.gpuprov-*) rm -f -- "$gp_t" ;; esac
      done
    } <"$gp_f"
    gp_close "${gp_f##*/}" "$gp_dir" interrupted
    printf '%s\t%s\t%s\n' "${gp_dir##*/}" "${gp_f##*/}" "$gp_rec"
  done
}
