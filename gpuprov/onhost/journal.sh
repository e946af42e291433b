#!/bin/sh
# The write-ahead journal: intent, backup, done.  An open intent is a file open/N of its run; it holds the
# record on its first line and then, one a line, what it may leave behind: temporary files, and "job SLOT ATTEMPT" (the
# slot of its job, and the last attempt there that is none of its own).
# In:  gp_state (absolute), gp_run (run id).  gp_recover also needs job_process.sh and job_state.sh.
# shellcheck disable=SC2154  # both are set before this is evaluated

gp_journal=$gp_state/journal/$gp_run

# gp_begin N RECORD NOTE... -- PATH...: note what is about to be done and keep what is there. NOTE: a temporary file, or
# "job SLOT".
gp_begin() {
  gp_new=$gp_journal/backup/$1
  [ -d "$gp_journal/open" ] || gp_prune || :
  (umask 077 && mkdir -p "$gp_journal/open" "$gp_new") || return
  gp_n=$1 gp_k=0 gp_slot=
  printf '%s\n' "$2" >"$gp_journal/open/.$gp_n" || return
  shift 2
  while [ "$1" != -- ]; do
    case $1 in
      'job '*)
        gp_slot=${1#job }
        gp_inherit "$gp_slot" || return
        printf 'job %s %s\n' "$gp_slot" "$(gp_ended "$gp_slot")" ;;
      *) printf '%s\n' "$1" ;;
    esac >>"$gp_journal/open/.$gp_n" || return
    shift
  done
  shift
  for gp_p; do
    ! gp_known "$gp_p" || continue
    gp_k=$((gp_k + 1))
    gp_b=$gp_new/$gp_k
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
  mv -f -- "$gp_journal/open/.$gp_n" "$gp_journal/open/$gp_n" || return
  [ -z "$gp_slot" ] || gp_bequeathed "$gp_slot"
}

# gp_prune: called once by a run that writes, under the host's lock. The last five runs stay whole, and so does one with an
# open intent. Of others the backups go, and a week after their last word what was kept and the log go too.
gp_prune() {
  set -- "$gp_state"/journal/*/
  while [ $# -gt 5 ]; do
    gp_d=${1%/}
    shift
    [ "$gp_d" != "$gp_journal" ] || continue
    for gp_o in "$gp_d"/open/*; do
      [ ! -e "$gp_o" ] || continue 2
    done
    rm -rf -- "$gp_d/backup"
    # A find that is missing or fails says nothing of how old it is
    gp_o=$(find "$gp_d" -prune -print && find "$gp_d"/* -prune -name '[lk]*' -mtime -7 -print) 2>/dev/null || continue
    [ "$gp_o" != "$gp_d" ] || rm -rf -- "$gp_d"
  done
}

# gp_ended SLOT: print the number of the last attempt that has ended.
gp_ended() {
  gp_a=0
  { read -r gp_a _ <"$gp_state/jobs/.counts/$1"; } 2>/dev/null || :
  case $gp_a in '' | *[!0-9]*) gp_a=0 ;; esac
  [ "$gp_a" -eq 0 ] || [ -f "$gp_state/jobs/$1/$gp_a/rc" ] || gp_a=$((gp_a - 1))
  echo "$gp_a"
}

# gp_known PATH: whether the backup that is being made has it already.
gp_known() {
  for gp_o in "$gp_new"/*.path; do
    [ -f "$gp_o" ] || continue
    IFS= read -r gp_q <"$gp_o" || continue
    [ "$gp_q" != "$1" ] || return 0
  done
  return 1
}

# gp_inherit SLOT: a job that an earlier run left is taken up. What it has half made by now is not what a failure is to
# give back: that is what the earlier run kept.
gp_inherit() {
  for gp_f in "$gp_state"/journal/*/open/*; do
    if [ ! -f "$gp_f" ] || ! grep -q "^job $1 " "$gp_f"; then continue; fi
    for gp_path in "${gp_f%/open/*}/backup/${gp_f##*/}"/*.path; do
      [ -f "$gp_path" ] || continue
      IFS= read -r gp_p <"$gp_path" || continue
      ! gp_known "$gp_p" || continue
      gp_k=$((gp_k + 1))
      for gp_b in "${gp_path%.path}".*; do cp -a -- "$gp_b" "$gp_new/$gp_k.${gp_b##*.}" || return; done
    done
  done
}

# gp_bequeathed SLOT: close the intents whose backups are ours by now.
gp_bequeathed() {
  for gp_f in "$gp_state"/journal/*/open/*; do
    if [ "$gp_f" != "$gp_journal/open/$gp_n" ] && [ -f "$gp_f" ] && grep -q "^job $1 " "$gp_f"; then
      gp_close "${gp_f##*/}" "${gp_f%/open/*}" continued
    fi
  done
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

# gp_step N SCRIPT: run a step of that change in a shell of its own. All that comes of it carries its mark.
gp_step() {
  gp_text=$2
  # shellcheck disable=SC2016  # it is the step's own shell that reads it
  printf '%s\n' "$gp_text" | GPUPROV_STEP="$gp_run.$1." sh -euc 'gp_text=$(cat)
exec </dev/null
eval "$gp_text"'
}

# gp_left N: print the pids of what the steps of that change have left in our session. What left it is a service.
gp_left() (
  set +eu
  { read -r gp_line </proc/self/stat; } 2>/dev/null || exit 0
  # shellcheck disable=SC2086  # the words are wanted
  set -- "$1" ${gp_line##*') '}
  gp_session=$5
  grep -lsF "GPUPROV_STEP=$gp_run.$1." /proc/[0-9]*/environ | while IFS=/ read -r _ _ gp_pid _; do
    { read -r gp_line <"/proc/$gp_pid/stat"; } 2>/dev/null || continue
    # shellcheck disable=SC2086
    set -- ${gp_line##*') '}
    [ "$4" != "$gp_session" ] || echo "$gp_pid"
  done
)

# gp_clear N: end that, so that none of it writes after what was there is given back. TERM, two seconds, KILL, two more.
gp_clear() (
  set +eu
  gp_naps=0
  while gp_pids=$(gp_left "$1") && [ -n "$gp_pids" ]; do
    gp_words=
    for gp_pid in $gp_pids; do
      gp_name='?'
      { read -r gp_name <"/proc/$gp_pid/comm"; } 2>/dev/null
      gp_words="$gp_words${gp_words:+, }$gp_pid $gp_name"
    done
    if [ "$gp_naps" -ge 40 ]; then
      echo "gpuprov: not even KILL ended what the step left running: $gp_words"
      exit 1
    fi
    [ "$gp_naps" -ne 0 ] || echo "gpuprov: what the step left running is ended: $gp_words"
    gp_sig=KILL
    [ "$gp_naps" -ge 20 ] || gp_sig=TERM
    # One by one: a pid that is gone by now must not keep the others
    for gp_pid in $gp_pids; do kill "-$gp_sig" "$gp_pid" 2>/dev/null; done
    sleep 0.1 2>/dev/null || { sleep 1 && gp_naps=$((gp_naps + 9)); }
    gp_naps=$((gp_naps + 1))
  done
)

# gp_undo N: the change failed; end what it left running, and give back what was there before, once. Prints what
# gp_restore does.
gp_undo() {
  [ -f "$gp_journal/open/$1" ] || return 0
  gp_clear "$1" || :
  gp_restore "$gp_journal" "$1" make
  gp_close "$1" "$gp_journal" undone
}

# gp_restore FOLDER N [make | keep | look]: give back what a run kept for N, and print a line for each path that is not as it
# was. make: folders that are gone are made again. keep: what is replaced or removed is kept first, as somebody
# may have worked on it meanwhile. look: nothing is done, and said is what would be ("put back", "remove", "leave").
gp_restore() {
  for gp_path in "$1/backup/$2"/*.path; do
    [ -f "$gp_path" ] || continue
    gp_b=${gp_path%.path}
    IFS= read -r gp_p <"$gp_path" || continue
    if [ -L "$gp_b.file" ] || [ -f "$gp_b.file" ]; then
      ! gp_as_kept "$gp_b.file" "$gp_p" || continue
      if [ "${3:-}" = look ]; then echo "gpuprov: put back $gp_p" && continue; fi
      gp_t=${gp_p%/*}/.gpuprov-undo-${1##*/}-$2
      rm -f -- "$gp_t"
      if { [ ! -d "$gp_p" ] || [ -L "$gp_p" ]; } && gp_keep "${3:-}" "$gp_p" &&
        cp -a -- "$gp_b.file" "$gp_t" && mv -fT -- "$gp_t" "$gp_p"; then
        echo "gpuprov: put back $gp_p$gp_kept"
      else
        rm -f -- "$gp_t"
        echo "gpuprov: could not put back $gp_p, which is kept as $gp_b.file"
      fi
    elif [ -f "$gp_b.dir" ]; then
      [ "${3:-}" != look ] || continue
      read -r gp_mode gp_own <"$gp_b.dir"
      [ -d "$gp_p" ] || [ "${3:-}" != make ] || mkdir -- "$gp_p"
      if [ -d "$gp_p" ]; then chown -- "$gp_own" "$gp_p" && chmod -- "$gp_mode" "$gp_p"; fi
    elif [ -f "$gp_b.absent" ]; then
      if [ ! -e "$gp_p" ] && [ ! -L "$gp_p" ]; then continue; fi
      if [ "${3:-}" = look ]; then
        if gp_is_full "$gp_p"; then echo "gpuprov: leave $gp_p, which was not there before"; else echo "gpuprov: remove $gp_p"; fi
        continue
      fi
      gp_kept=
      if [ -d "$gp_p" ] && [ ! -L "$gp_p" ]; then
        rmdir -- "$gp_p" 2>/dev/null || :
      elif gp_keep "${3:-}" "$gp_p"; then
        rm -f -- "$gp_p" || :
      fi
      if [ ! -e "$gp_p" ] && [ ! -L "$gp_p" ]; then
        echo "gpuprov: removed $gp_p$gp_kept"
      else
        echo "gpuprov: left $gp_p, which was not there before"
      fi
    fi
  done
}

# gp_is_full PATH: whether it is a folder that holds something, which is left as it is.
gp_is_full() {
  if [ ! -d "$1" ] || [ -L "$1" ]; then return 1; fi
  for gp_o in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -e "$gp_o" ] || [ -L "$gp_o" ]; then return 0; fi
  done
  return 1
}

# gp_keep WORD PATH: with the word keep, copy what is there into this run's folder. Out: gp_kept, that in words.
gp_keep() {
  gp_kept=
  [ "$1" = keep ] || return 0
  if [ ! -e "$2" ] && [ ! -L "$2" ]; then return 0; fi
  (umask 077 && mkdir -p "$gp_journal/kept") || return
  gp_k=1
  while [ -e "$gp_journal/kept/$gp_k" ] || [ -L "$gp_journal/kept/$gp_k" ]; do gp_k=$((gp_k + 1)); done
  cp -a -- "$2" "$gp_journal/kept/$gp_k" || return
  gp_kept=" (what was there is kept as $gp_journal/kept/$gp_k)"
}

# gp_as_kept BACKUP PATH: whether it is still what was kept. A host without cmp puts it back in any case.
gp_as_kept() {
  if [ -L "$1" ]; then
    [ -L "$2" ] && [ "$(readlink "$1")" = "$(readlink "$2")" ]
  else
    # A plain user's copy of another's file is his own
    gp_form='%a %u:%g'
    [ "$(id -u)" = 0 ] || gp_form=%a
    [ -f "$2" ] && [ ! -L "$2" ] && [ "$(stat -c "$gp_form" "$1")" = "$(stat -c "$gp_form" "$2")" ] &&
      cmp -s -- "$1" "$2" 2>/dev/null
  fi
}

# gp_came_of SLOT ATTEMPT: print what became of the job of an intent: running (or what is left of it), done or undone.
gp_came_of() (
  set +eu
  gp_host
  gp_judge "$gp_state/jobs/$1"
  case $gp_seen in
    running | orphaned | unknown) echo running ;;
    ended) if [ "$gp_rc $gp_how" = '0 ended' ] && [ "$gp_attempt" -gt "$2" ]; then echo "done"; else echo undone; fi ;;
    *) echo undone ;;
  esac
)

# gp_intent FILE [clean]: read an open intent. Out: gp_dir gp_n (run and number), gp_rec, gp_came (see gp_came_of; without
# a job it is undone). clean: the temporary files that it names are removed.
gp_intent() {
  gp_dir=${1%/open/*} gp_n=${1##*/} gp_came=undone
  {
    IFS= read -r gp_rec || :
    while IFS= read -r gp_t; do
      # shellcheck disable=SC2086  # two words
      case $gp_t in
        'job '*) gp_came=$(gp_came_of ${gp_t#job }) ;;
        */.gpuprov-*) [ -z "${2:-}" ] || rm -f -- "$gp_t" ;;
      esac
    done
  } <"$1"
}

# gp_told WORD: print an intent that was read, and behind it, after a tab, the lines of gp_restore with that word.
gp_told() {
  printf '%s\t%s\t%s\t%s\n' "${gp_dir##*/}" "$gp_n" "$gp_came" "$gp_rec"
  [ "$gp_came" != undone ] || gp_restore "$gp_dir" "$gp_n" "$1" | while IFS= read -r gp_t; do printf '\t%s\n' "$gp_t"; done
}

# gp_pending: print what gp_recover would do, and write nothing.
# Who holds the lock is at work: what is open there is not cut off.
gp_pending() {
  gp_oshell=- gp_ostart=- gp_oboot=-
  { read -r _ _ _ _ gp_oshell gp_ostart _ gp_oboot _ <"$gp_state/owner"; } 2>/dev/null || :
  gp_host
  ! gp_same "$gp_oshell" "$gp_ostart" "$gp_oboot" || return 0
  for gp_f in "$gp_state"/journal/*/open/*; do
    [ -f "$gp_f" ] || continue
    gp_intent "$gp_f"
    gp_told look
  done
}

# gp_recover N...: close what was left open (by earlier runs, or by this one before its line was lost; N... are
# ours and still under way). What was cut off is given back; a job that has ended well meanwhile counts; one that still
# runs keeps its intent open, for whoever takes it up. Prints gp_told of each.
gp_recover() {
  for gp_f in "$gp_state"/journal/*/open/*; do
    [ -f "$gp_f" ] || continue
    gp_dir=${gp_f%/open/*}
    [ "${gp_dir##*/}" != "$gp_run" ] || case " $* " in *" ${gp_f##*/} "*) continue ;; esac
    gp_intent "$gp_f" clean
    gp_word=keep
    [ "${gp_dir##*/}" != "$gp_run" ] || gp_word=
    gp_told "$gp_word"
    [ "$gp_came" = running ] || gp_close "$gp_n" "$gp_dir" "$gp_came"
  done
}
