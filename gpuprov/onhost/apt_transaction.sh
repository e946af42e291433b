#!/bin/sh
# Install and remove packages in one transaction that is simulated and judged before anything changes.
#
# Text before it: job_head.sh.
# In:  gp_items             NAME, NAME=VERSION or NAME- (remove), separated by blanks
#      gp_protected         shell patterns: installed ones are not upgraded, downgraded or removed
#      gp_never_downgraded  shell patterns: may be upgraded, never downgraded
#      gp_lock_wait         seconds to wait for another apt or dpkg
#      the working directory is an empty staging folder
# Out: progress, then the simulation's own Inst, Remv and Conf lines, then what apt says.
# Ends with 0    done, or nothing was left to do
#           1    apt failed
#           10   refused: it would change what was not asked for or is protected
#           11   dpkg or apt is in a broken state; the line that repairs it is printed
#           12   a package or version is not to be had
#           13   a held package would have to change
#           14   another process kept a lock too long; it is named, and no lock is ever broken
# Nothing is removed by force, no configuration file is replaced, no service is restarted by needrestart.
# shellcheck disable=SC2154  # the variables are set by what precedes
set -euf
export LC_ALL=C DEBIAN_FRONTEND=noninteractive DEBIAN_PRIORITY=critical
export NEEDRESTART_MODE=l NEEDRESTART_SUSPEND=1 UCF_FORCE_CONFFOLD=1
export APT_LISTCHANGES_FRONTEND=none APT_LISTBUGS_FRONTEND=none
gp_waited=0 gp_told='' gp_updated='' gp_broken_sources=''

indent() { sed 's/^/  /' "$1"; }

matches() { # name, patterns
  for gp_pattern in $2; do
    # shellcheck disable=SC2254  # it is a pattern
    case $1 in $gp_pattern) return 0 ;; esac
  done
  return 1
}

apt_get() {
  apt-get -q -o DPkg::Lock::Timeout="$gp_lock_wait" -o Acquire::Retries=3 -o Acquire::http::Timeout=30 \
    -o Acquire::https::Timeout=30 -o APT::Install-Recommends=false -o APT::Color=0 -o Dpkg::Use-Pty=0 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" </dev/null
}

# --- locks ---

# Print "COMMAND, pid PID" of the process that holds a lock on a file. apt's locks are fcntl locks, which no
# tool of the shell can try; the kernel's list has them, by inode. A match counts only where the process
# is seen to have the file open: inode numbers repeat across file systems.
holder() ( # file; a subshell, for its set +f
  [ -e "$1" ] && [ -r /proc/locks ] || exit 1
  gp_inode=$(stat -c %i "$1")
  set +f
  while read -r _ gp_kind _ _ gp_pid gp_where _; do
    case $gp_kind:$gp_pid:$gp_where in POSIX:[1-9]*:*:"$gp_inode") ;; *) continue ;; esac
    for gp_fd in "/proc/$gp_pid/fd/"*; do
      # shellcheck disable=SC3013  # dash, bash and busybox all know -ef
      [ "$gp_fd" -ef "$1" ] || continue
      gp_comm='?'
      read -r gp_comm <"/proc/$gp_pid/comm" || :
      printf '%s, pid %s\n' "$gp_comm" "$gp_pid"
      exit 0
    done
  done </proc/locks
  exit 1
)

pause() { # what it waits for; says so when that is new, and now and then
  if [ "$gp_waited" -ge "$gp_lock_wait" ]; then
    gp_stop 14 "locked: $1 after $gp_lock_wait s of waiting; nothing was changed and the lock is left alone"
  fi
  if [ "$1" != "$gp_told" ] || [ $((gp_waited % 30)) -eq 0 ]; then gp_say "waiting: $1"; fi
  gp_told=$1
  sleep 1
  gp_waited=$((gp_waited + 1))
}

wait_for_locks() {
  for gp_lock in "$gp_admin/lock-frontend" "$gp_admin/lock" "${gp_lists%/}/lock" "${gp_archives%/}/lock"; do
    while gp_who=$(holder "$gp_lock"); do pause "$gp_lock is held by $gp_who"; done
  done
}

# Run apt-get with its output shown and kept in ./said; once more while somebody else's lock is in the way.
run_apt() {
  while :; do
    wait_for_locks
    {
      gp_rc=0
      apt_get "$@" 2>&1 || gp_rc=$?
      echo "$gp_rc" >rc
    } | tee said
    read -r gp_rc <rc
    [ "$gp_rc" != 0 ] || return 0
    gp_why=$(sed -n 's/^[EW]: *\(Could not get lock.*\)/\1/p; s/^[EW]: *\(Unable to lock.*\)/\1/p' said | head -n 1)
    [ -n "$gp_why" ] || return "$gp_rc"
    pause "$gp_why"
  done
}

# --- what is there ---

# Sets gp_held (names) and ends the job when packages are in between states.
# dpkg --audit is for words only: it also complains of packages that merely lack a list of checksums.
see_packages() {
  while :; do
    wait_for_locks
    # shellcheck disable=SC2016  # the fields are dpkg's
    dpkg-query -W -f '${db:Status-Abbrev}|${binary:Package}\n' >packages 2>/dev/null || :
    gp_broken=$(sed -n 's/^.[UFH].|//p; s/^..R|//p' packages | tr '\n' ' ')
    set +f
    for gp_update in "$gp_admin"/updates/[0-9]*; do
      [ ! -e "$gp_update" ] || gp_broken="$gp_broken(dpkg was interrupted)"
    done
    set -f
    [ -n "$gp_broken" ] || break
    # Another dpkg may be at work this very moment: then this is no broken state.
    holder "$gp_admin/lock" >/dev/null || holder "$gp_admin/lock-frontend" >/dev/null || {
      dpkg --audit 2>&1 | sed 's/^/  /' || :
      gp_stop 11 "broken: dpkg left packages half done: $gp_broken" "repair: dpkg --configure -a && apt-get -f install"
    }
  done
  gp_held=$(sed -n 's/^h..|//p' packages)
}

# Say whether an item is as wanted; sets gp_name, gp_version (wanted), gp_now (empty: not installed).
satisfied() { # item
  gp_version='' gp_name=$1 gp_now=''
  case $1 in
  *=*) gp_name=${1%%=*} gp_version=${1#*=} ;;
  *-) gp_name=${1%-} ;;
  esac
  # shellcheck disable=SC2016  # the fields are dpkg's
  gp_now=$(dpkg-query -W -f '${db:Status-Abbrev}|${Version}\n' "$gp_name" 2>/dev/null | sed -n 's/^.[iWt].|//p') || :
  case $1 in
  *-) [ -z "$gp_now" ] ;;
  *=*) printf '%s\n' "$gp_now" | grep -qxF -e "$gp_version" ;; # one line for each architecture
  *) [ -n "$gp_now" ] ;;
  esac
}

# Print the versions that the lists offer of a package, newest first.
offered() { apt-cache madison "$1" 2>/dev/null | awk -F'|' '{ gsub(/ /, "", $2); print $2 }' | awk '!seen[$0]++'; }

missing() { # the items: print those that the lists do not offer
  for gp_item in "$@"; do
    gp_name=${gp_item%%=*}
    case $gp_item in
    *=*) offered "$gp_name" | grep -qxF -e "${gp_item#*=}" || gp_say "$gp_item" ;;
    *) [ -n "$(offered "$gp_name" | head -n 1)" ] || gp_say "$gp_item" ;;
    esac
  done
}

# --- the lists ---

# apt gives list files the server's time; the folders and the stamp have the time of the last update.
lists_are_old() {
  [ -d "$gp_lists" ] || return 0
  [ -n "$(find "$gp_lists" -maxdepth 1 -type f -name '*_Packages*' | head -n 1)" ] || return 0
  [ -z "$(find "$gp_lists" "${gp_lists%/}/partial" "${gp_lists%/}/../periodic/update-success-stamp" \
    -maxdepth 0 -mmin -1440 2>/dev/null | head -n 1)" ]
}

update() { # why
  gp_updated=yes
  gp_say "apt-get update, because $1"
  # Whether it matters that a source failed is told by what is to be had afterwards.
  run_apt update || :
  gp_broken_sources=$(sed -n 's/^[WE]: *//p' said | grep -v '^Some index files failed' | sort -u) || :
}

# End with the reason why items are not to be had.
not_to_be_had() { # items
  [ -z "$gp_broken_sources" ] || printf 'these package sources could not be read:\n%s\n' "$gp_broken_sources" >&2
  for gp_item in "$@"; do
    gp_name=${gp_item%%=*}
    gp_offers=$(offered "$gp_name" | head -n 5 | tr '\n' ' ')
    if [ -n "$gp_offers" ]; then
      printf 'E: Version %s of %s is not to be had; there are: %s\n' "${gp_item#*=}" "$gp_name" "${gp_offers% }" >&2
      continue
    fi
    gp_prefix=${gp_name%%:*} gp_near=''
    gp_provided=$(apt-cache showpkg "$gp_prefix" 2>/dev/null | sed '1,/^Reverse Provides:/d; s/ .*//' | sort -u |
      head -n 5 | tr '\n' ' ')
    if [ -n "$gp_provided" ]; then
      printf 'E: %s is a virtual package; name one that provides it: %s\n' "$gp_name" "${gp_provided% }" >&2
      continue
    fi
    while [ -z "$gp_near" ] && [ ${#gp_prefix} -gt 1 ]; do
      gp_near=$(apt-cache pkgnames "$gp_prefix" 2>/dev/null | sort | head -n 5 | tr '\n' ' ')
      gp_prefix=${gp_prefix%?}
    done
    printf 'E: Unable to locate package %s%s\n' "$gp_name" "${gp_near:+; near that name: ${gp_near% }}" >&2
  done
  exit 12
}

# --- judging ---

# Print the names of held packages among the changes of a simulation (file).
held_in() {
  for gp_hold in $gp_held; do
    if sed -n 's/^Remv \([^ ]*\) .*/\1/p; s/^Purg \([^ ]*\) .*/\1/p; s/^Inst \([^ ]*\) \[.*/\1/p' "$1" |
      grep -qxF -e "${gp_hold%%:*}" -e "$gp_hold"; then gp_say "$gp_hold"; fi
  done
}

simulate() {
  # shellcheck disable=SC2086  # words
  if apt_get -s -y $gp_options install $gp_pending >simulation 2>said; then return 0; fi
  indent said
  if grep -q -e 'fix-broken install' -e '-f install' said; then
    gp_stop 11 "broken: installed packages lack what they depend on" "repair: apt-get -f install"
  fi
  if [ -n "$gp_held" ]; then
    # Would it work if holds did not count? Then they are the reason, and can be named.
    # shellcheck disable=SC2086  # words
    apt_get -s -y $gp_options -o APT::Ignore-Hold=1 --allow-change-held-packages install $gp_pending \
      >released 2>/dev/null || :
    gp_blame=$(held_in released | tr '\n' ' ')
    [ -z "$gp_blame" ] ||
      gp_stop 13 "held: ${gp_blame% } would have to change; let go with: apt-mark unhold ${gp_blame% }"
  fi
  sed -n '/unmet dependencies/,$p' simulation
  gp_stop 1 "apt finds no way to do this: $gp_pending"
}

judge() {
  gp_refused=''
  while read -r gp_verb gp_name gp_rest; do
    gp_base=${gp_name%%:*}
    case $gp_verb in
    Remv | Purg)
      if matches "$gp_base" "$gp_protected"; then
        gp_refused="$gp_refused|would remove $gp_name, which is protected"
      elif ! matches "$gp_base" "$gp_removals" && ! matches "$gp_name" "$gp_removals"; then
        gp_refused="$gp_refused|would remove $gp_name, which nobody asked for"
      fi
      ;;
    Inst)
      case $gp_rest in '['*) ;; *) continue ;; esac
      gp_old=${gp_rest#'['} gp_new=${gp_rest#*'('}
      gp_old=${gp_old%%']'*} gp_new=${gp_new%% *}
      gp_way='upgrade'
      if dpkg --compare-versions "$gp_new" lt "$gp_old"; then gp_way='downgrade'; fi
      if matches "$gp_base" "$gp_protected"; then
        gp_refused="$gp_refused|would $gp_way $gp_name from $gp_old to $gp_new, which is protected"
      elif [ "$gp_way" = downgrade ] && matches "$gp_base" "$gp_never_downgraded"; then
        gp_refused="$gp_refused|would downgrade $gp_name from $gp_old to $gp_new, which is never downgraded"
      elif [ "$gp_way" = downgrade ] && ! matches "$gp_base=$gp_new" "$gp_pending" &&
        ! matches "$gp_name=$gp_new" "$gp_pending"; then
        gp_refused="$gp_refused|would downgrade $gp_name from $gp_old to $gp_new, which nobody asked for"
      fi
      ;;
    esac
  done <simulation
  [ -z "$gp_refused" ] || gp_stop 10 "$(printf '%s' "${gp_refused#'|'}" | tr '|' '\n' | sed 's/^/refused: /')" \
    "nothing was changed"
}

# --- the transaction ---

for gp_tool in apt-get apt-cache apt-config dpkg dpkg-query; do
  command -v "$gp_tool" >/dev/null 2>&1 || gp_stop 1 "this host has no $gp_tool: it is not a Debian or Ubuntu"
done
gp_dpkg_status=
eval "$(apt-config shell gp_lists Dir::State::lists/d gp_archives Dir::Cache::archives/d \
  gp_dpkg_status Dir::State::status/f)"
gp_admin=${gp_dpkg_status%/*}
[ -w "$gp_admin" ] || gp_stop 1 "not permitted to change packages: $gp_admin is not writable; run this as root"

see_packages
gp_pending='' gp_installs='' gp_removals=''
for gp_item in $gp_items; do
  ! satisfied "$gp_item" || continue
  for gp_hold in $gp_held; do
    if [ "${gp_hold%%:*}" = "${gp_name%%:*}" ] && [ -n "$gp_now" ]; then
      gp_stop 13 "held: $gp_hold would have to change from $gp_now; let go with: apt-mark unhold $gp_hold"
    fi
  done
  gp_pending="$gp_pending $gp_item"
  case $gp_item in *-) gp_removals="$gp_removals $gp_name" ;; *) gp_installs="$gp_installs $gp_item" ;; esac
done
gp_pending=${gp_pending# }
if [ -z "$gp_pending" ]; then
  gp_say "nothing to do: everything is as wanted"
  exit 0
fi

gp_options='--no-install-recommends'
# A net below the judgement: should another process change packages in between, apt itself refuses to remove.
gp_net=''
[ -n "$gp_removals" ] || gp_net='--no-remove'
case $gp_installs in *=*) gp_options="$gp_options --allow-downgrades" ;; esac

if [ -n "$gp_installs" ]; then
  # shellcheck disable=SC2086  # words
  if lists_are_old; then
    update "the package lists are missing or older than a day"
  else
    gp_missing=$(missing $gp_installs | tr '\n' ' ')
    [ -z "$gp_missing" ] || update "the package lists do not have ${gp_missing% }"
  fi
  # shellcheck disable=SC2086  # words
  gp_missing=$(missing $gp_installs)
  # shellcheck disable=SC2086  # words
  [ -z "$gp_missing" ] || not_to_be_had $gp_missing
  [ -z "$gp_broken_sources" ] ||
    printf '%s\n' "$gp_broken_sources" | sed 's/^/warning: a package source is broken, what is wanted comes from others: /'
fi

while :; do
  simulate
  grep -e '^Inst ' -e '^Remv ' -e '^Purg ' -e '^Conf ' simulation || :
  judge
  # shellcheck disable=SC2086  # words
  if run_apt -y $gp_options $gp_net install $gp_pending; then break; fi
  # The lists were young enough and yet behind the server: what they name is gone there.
  if [ -n "$gp_updated" ] || ! grep -q -e '404 ' -e '^E: Unable to fetch some' -e '^E: Failed to fetch' said; then
    gp_stop 1 "apt-get failed"
  fi
  update "a package could not be fetched"
done

for gp_item in $gp_pending; do
  satisfied "$gp_item" || gp_stop 1 "apt-get ended well, and yet $gp_name is ${gp_now:-not installed}"
done
gp_say "done: $gp_pending"
