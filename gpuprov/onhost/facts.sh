#!/bin/sh
# Say what this host is. Read-only: no file is written, nothing is started that is meant to outlive it.
#
# In:  gp_state (see state.sh), gp_paths_toolkits, gp_paths_envs, gp_paths_cache; each may be unset.
# Out: one record a line, fields separated by tabs; in a field \\, \t and \n stand for backslash, tab and
#      newline, all other bytes are the host's own. The records of a group are followed by
#      `done GROUP COUNT`: a group without that line, or with another count, was not read whole.
#      `unseen WHAT REASON` says that something could not be looked at, which is not the same as absent.
#
# Needs nothing but the shell: every command is optional. It starts few processes because processes are what
# costs. Nothing below a network mount is touched, since a dead server would hang us: paths go through
# gp_local or gp_real first. What may hang all the same (the driver, other processes' /proc) runs bounded.
#
# Lists are split at newlines and never globbed, except in gp_glob.
# shellcheck disable=SC2086,SC2154
LC_ALL=C
export LC_ALL
gp_t=$(printf '\t')
gp_n='
'
gp_mark=gp-facts-$$
gp_c=0
IFS=$gp_n
set -f
unset CDPATH

gp_escape() { # text: sets gp_e
  gp_e=$1
  case $1 in *\\* | *"$gp_t"* | *"$gp_n"*) ;; *) return 0 ;; esac
  gp_rest=$1 gp_e=
  while :; do
    gp_head=${gp_rest%%[\\"$gp_t$gp_n"]*}
    gp_e=$gp_e$gp_head
    [ "$gp_head" != "$gp_rest" ] || return 0
    gp_rest=${gp_rest#"$gp_head"}
    case $gp_rest in \\*) gp_e=$gp_e\\\\ ;; "$gp_t"*) gp_e=$gp_e\\t ;; *) gp_e=$gp_e\\n ;; esac
    gp_rest=${gp_rest#?}
  done
}
gp_record() { # key value...: prints one record
  gp_l=$1
  shift
  for gp_x do
    gp_escape "$gp_x"
    gp_l=$gp_l$gp_t$gp_e
  done
  printf '%s\n' "$gp_l"
  gp_c=$((gp_c + 1))
}
gp_done() { # group
  printf 'done\t%s\t%s\n' "$1" "$gp_c"
  gp_c=0
}
gp_line() { # file: sets gp_s to its first line; false when it cannot be read or is empty
  gp_s=
  [ -f "$1" ] && [ -r "$1" ] || return 1
  { IFS= read -r gp_s <"$1"; } 2>/dev/null
  [ -n "$gp_s" ]
}
gp_file() { # key file: records the first line of a file, if there is one
  if gp_line "$2"; then gp_record "$1" "$gp_s"; fi
}
gp_words() { # text: sets gp_words_ to its words, one a line
  IFS=" $gp_t$gp_n"
  set -- $1
  IFS=$gp_n
  gp_words_="$*"
}
gp_glob() { # pattern: sets gp_list to what matches, one a line
  gp_list=
  set +f
  for gp_x in $1; do
    if [ -e "$gp_x" ] || [ -L "$gp_x" ]; then gp_list=$gp_list$gp_x$gp_n; fi
  done
  set -f
}
gp_add() { # list-variable line: appends the line unless the list has it
  eval "gp_x=\$$1"
  case $gp_n$gp_x in *"$gp_n$2$gp_n"*) return 1 ;; esac
  eval "$1=\$gp_x\$2\$gp_n"
}

# --- where we may look ---------------------------------------------------------------------------

gp_nets=
gp_local() { # path: true when it lies below no network mount (by its spelling; links: gp_real)
  for gp_m in $gp_nets; do
    case $1/ in "$gp_m"/*) return 1 ;; esac
  done
}
gp_real() { # path: sets gp_p to it without links; false: ends nowhere (gp_net empty), or below a network mount
  gp_todo=${1#/} gp_p='' gp_hops=0 gp_net=
  while [ -n "$gp_todo" ]; do
    gp_word=${gp_todo%%/*}
    case $gp_todo in */*) gp_todo=${gp_todo#*/} ;; *) gp_todo= ;; esac
    case $gp_word in
    '' | .) ;;
    ..) gp_p=${gp_p%/*} ;;
    *)
      gp_p=$gp_p/$gp_word
      gp_local "$gp_p" || gp_net=$gp_p
      [ -z "$gp_net" ] || return 1
      if [ -L "$gp_p" ]; then
        gp_hops=$((gp_hops + 1))
        [ $gp_hops -le 20 ] && gp_to=$(readlink "$gp_p" 2>/dev/null) || return 1
        case $gp_to in /*) gp_p= ;; *) gp_p=${gp_p%/*} ;; esac
        gp_todo=${gp_to#/}/$gp_todo
      elif [ ! -e "$gp_p" ]; then
        return 1
      fi
      ;;
    esac
  done
  gp_p=${gp_p:-/}
}
gp_which() { # command: sets gp_w to its path; false when no local folder of PATH has it
  for gp_d in $gp_dirs; do
    gp_w=$gp_d/$1
    if [ -f "$gp_w" ] && [ -x "$gp_w" ]; then return 0; fi
  done
  gp_w=
  return 1
}

# Runs what may hang, even beyond SIGKILL. Prints the first bytes of its output and then, on a line of its
# own, its status or the word timeout. The reader stops at a mark, so that it never waits for the end of a
# pipe which a stuck process holds open.
gp_bounded() { # seconds bytes command...
  gp_secs=$1 gp_limit=$2
  shift 2
  {
    (
      sleep $gp_secs &
      gp_sleep=$!
      trap 'kill $gp_sleep; exit' TERM
      printf '%s watch 0\n' $gp_mark >&4
      wait $gp_sleep && printf '\n%s timeout\n' $gp_mark >&4
    ) 4>&1 >/dev/null &
    printf '%s watch %s\n' $gp_mark $!
    (
      (
        IFS=' ' read -r gp_x _ </proc/self/stat && printf '%s work %s\n' $gp_mark "$gp_x"
        if [ "$1" = call ]; then "$2"; else exec "$@"; fi
      ) 2>&1
      printf '\n%s end %s\n' $gp_mark $?
    ) &
  } 2>/dev/null 3>&- | {
    gp_all='' gp_watch='' gp_work='' gp_ready='' gp_rc=
    while IFS= read -r gp_s; do
      case $gp_s in
      "$gp_mark watch 0") gp_ready=1 ;;
      "$gp_mark watch "*) gp_watch=${gp_s##* } ;;
      "$gp_mark work "*) gp_work=${gp_s##* } ;;
      "$gp_mark end "*) gp_rc=${gp_s##* } ;;
      "$gp_mark timeout") gp_rc=timeout ;;
      *) [ ${#gp_all} -gt $gp_limit ] || gp_all=$gp_all$gp_s$gp_n ;;
      esac
      # the watch is ended only when it can end its own sleep
      [ -z "$gp_rc" ] || [ -z "$gp_ready$gp_watch" ] || break
    done
    if [ "$gp_rc" = timeout ] && [ -n "$gp_work" ]; then kill -KILL "$gp_work"; fi
    [ -z "$gp_watch" ] || kill "$gp_watch"
    [ ${#gp_all} -le $gp_limit ] || gp_all=$(printf "%.${gp_limit}s" "$gp_all")
    printf '%s\n%s' "${gp_all%"$gp_n"}" "${gp_rc:-timeout}"
  } 2>/dev/null
}

# --- the groups ----------------------------------------------------------------------------------

gp_group_mounts() {
  gp_all='' gp_sized=''
  if ! gp_all=$(cat /proc/mounts 2>/dev/null); then
    if [ -r /proc/mounts ]; then
      while IFS= read -r gp_s; do gp_all=$gp_all$gp_s$gp_n; done </proc/mounts
    else
      gp_record unseen mounts '/proc/mounts cannot be read'
    fi
  fi
  for gp_s in $gp_all; do
    IFS=' '
    set -- $gp_s
    IFS=$gp_n
    gp_kind=local
    case $3 in
    ext[234] | xfs | btrfs | zfs | f2fs | overlay | aufs | tmpfs | bcachefs | reiserfs | jfs | ntfs3 | vfat | exfat) ;;
    fuseblk | fuse.fuse-overlayfs | fuse-overlayfs | squashfs | erofs | iso9660 | virtiofs) ;;
    proc | sysfs | cgroup* | dev* | mqueue | *debugfs | tracefs | securityfs | pstore | bpf | configfs | fusectl) continue ;;
    hugetlbfs | binfmt_misc | rpc_pipefs | nsfs | efivarfs | ramfs | selinuxfs | fuse.lxcfs | fuse.gvfsd* | fuse.portal) continue ;;
    *) if [ "$2" != / ]; then gp_kind=network; fi ;;
    esac
    if [ $gp_kind = network ]; then
      gp_m=$2
      while :; do case $gp_m in *'\040'*) gp_m="${gp_m%%'\040'*} ${gp_m#*'\040'}" ;; *) break ;; esac done
      gp_nets=$gp_nets$gp_m$gp_n
    fi
    # a machine that runs containers itself has hundreds of these
    case $2 in
    /var/lib/docker/* | /run/docker/* | /var/lib/containers/* | /var/lib/kubelet/*) continue ;;
    /run/containerd/* | /snap/* | /run/user/* | /run/credentials/*) continue ;;
    esac
    gp_record mount "$2" "$1" "$3" "$4" $gp_kind
    case $gp_kind$2 in network* | *\\*) ;; *) if gp_local "$2" && [ -d "$2" ]; then gp_sized=$gp_sized$2$gp_n; fi ;; esac
  done
  gp_all=$(stat -f -c '%a %b %S %d %c %n' $gp_sized 2>/dev/null)
  [ -n "$gp_all" ] || gp_record unseen 'mount sizes' 'no stat -f here'
  for gp_s in $gp_all; do gp_record space "$gp_s"; done
  gp_done mounts
}

gp_group_identity() {
  gp_file hostname /proc/sys/kernel/hostname
  if gp_id=$(id 2>/dev/null); then gp_record id "$gp_id"; else gp_record unseen user 'no id command'; fi
  gp_id=${gp_id#uid=} gp_shell=
  gp_id=${gp_id%%[!0-9]*}
  if [ -n "$gp_id" ] && [ -r /etc/passwd ]; then
    while IFS=: read -r _ _ gp_x _ _ _ gp_s; do
      if [ "$gp_x" = "$gp_id" ]; then gp_shell=$gp_s && break; fi
    done </etc/passwd
  fi
  gp_record home "${HOME:-}"
  gp_record shell "${gp_shell:-${SHELL:-}}"
  gp_record clock "$(date +%s 2>/dev/null)"
  gp_record paths "${gp_state:-}" "${gp_paths_toolkits:-}" "${gp_paths_envs:-}" "${gp_paths_cache:-}"
  gp_done identity
}

gp_group_os() {
  for gp_f in /etc/os-release /usr/lib/os-release; do
    gp_line $gp_f || continue
    while IFS= read -r gp_s || [ -n "$gp_s" ]; do
      case $gp_s in ID=* | ID_LIKE=* | VERSION_ID=* | VERSION_CODENAME=* | PRETTY_NAME=*) gp_record os-release "$gp_s" ;; esac
    done <$gp_f
    break
  done
  gp_file kernel /proc/sys/kernel/osrelease
  gp_record arch "$(uname -m 2>/dev/null)"
  gp_s=$(getconf GNU_LIBC_VERSION 2>/dev/null) || gp_s=$(ldd --version 2>&1)
  gp_record libc "${gp_s%%"$gp_n"*}"
  gp_file boot-id /proc/sys/kernel/random/boot_id
  if gp_line /proc/1/stat; then gp_record pid1-stat "${gp_s##*)}"; fi
  gp_file uptime /proc/uptime
  gp_file pid1 /proc/1/comm
  if [ -d /run/systemd/system ]; then gp_record systemd yes; fi
  for gp_f in sys_vendor product_name; do gp_file dmi /sys/class/dmi/id/$gp_f; done
  gp_done os
}

gp_group_container() {
  for gp_f in /.dockerenv /run/.containerenv /run/systemd/container /run/host/container-manager /dev/lxd/sock; do
    if [ -e $gp_f ]; then gp_record hint $gp_f; fi
  done
  gp_file manager /run/systemd/container
  gp_file cgroup /proc/1/cgroup
  # the names only: the values are the renter's and the provider's secrets
  if [ -r /proc/1/environ ] && gp_all=$(tr '\0' '\n' </proc/1/environ) 2>/dev/null; then
    for gp_s in $gp_all; do
      case $gp_s in container=*) gp_record manager "${gp_s#*=}" ;; esac
      case $gp_s in *=*) gp_s=${gp_s%%=*} ;; *) continue ;; esac
      case $gp_s in '' | [0-9]* | *[!A-Za-z0-9_]*) ;; *) gp_record env "$gp_s" ;; esac
    done
  else
    gp_record unseen 'environment of PID 1' 'not readable by this user'
  fi
  gp_done container
}

gp_group_resources() {
  if gp_s=$(nproc 2>/dev/null); then gp_record cpus "$gp_s"; else gp_file cpus-online /sys/devices/system/cpu/online; fi
  if [ -r /proc/cpuinfo ]; then
    while IFS= read -r gp_s && [ -n "$gp_s" ]; do
      case $gp_s in "model name"*) gp_record cpu-model "${gp_s#*: }" && break ;; esac
    done </proc/cpuinfo
  fi
  if [ -r /proc/meminfo ]; then
    while IFS=' ' read -r gp_f gp_s _; do
      case $gp_f in MemTotal: | MemAvailable: | SwapTotal:) gp_record meminfo "$gp_f" "$gp_s" ;; Dirty:) break ;; esac
    done </proc/meminfo
  fi
  [ -r /proc/self/cgroup ] && while IFS=: read -r _ gp_kind gp_g; do
    case ,$gp_kind, in
    ,,) gp_root=/sys/fs/cgroup gp_all=cpu.max${gp_n}memory.max ;;
    *,cpu,*) gp_root=/sys/fs/cgroup/cpu gp_all=cpu.cfs_quota_us${gp_n}cpu.cfs_period_us ;;
    ,memory,) gp_root=/sys/fs/cgroup/memory gp_all=memory.limit_in_bytes ;;
    *) continue ;;
    esac
    # inside a container the path of its group outside may not exist: the top is its own then
    [ -d "$gp_root$gp_g" ] || gp_g=
    while :; do
      gp_g=${gp_g%/}
      for gp_f in $gp_all; do
        if gp_line "$gp_root$gp_g/$gp_f"; then gp_record limit "$gp_f" "$gp_g/" "$gp_s"; fi
      done
      [ -n "$gp_g" ] || break
      gp_g=${gp_g%/*}
    done
  done </proc/self/cgroup
  gp_done resources
}

gp_group_tools() {
  for gp_f in sh bash flock setsid setpriv runuser timeout sha256sum md5sum base64 stat tar gzip xz bzip2 zstd \
    unzip curl wget aria2c rsync git sudo apt-get dpkg-query dnf yum apk conda mamba micromamba pip pip3 uv python python3 \
    make cmake ninja gcc g++ nvcc nvidia-smi nvidia-container-cli docker podman systemctl supervisorctl \
    ldconfig tmux lsof fuser; do
    if gp_which $gp_f; then
      gp_record tool $gp_f "$gp_w"
    elif command -v $gp_f >/dev/null 2>&1; then
      gp_record tool $gp_f $gp_f # built in, or an applet of busybox
    elif [ -x /sbin/$gp_f ]; then
      gp_record tool $gp_f /sbin/$gp_f
    fi
  done
  gp_names=gcc$gp_n
  for gp_d in $gp_dirs; do
    gp_glob "$gp_d/gcc-[0-9]*"
    for gp_f in $gp_list; do
      case ${gp_f##*/gcc-} in *[!0-9.]*) ;; *) gp_add gp_names "${gp_f##*/}" || : ;; esac
    done
  done
  for gp_f in $gp_names; do
    gp_which "$gp_f" || continue
    gp_gcc=$gp_w
    gp_s=$("$gp_gcc" -dumpfullversion -dumpversion 2>/dev/null)
    gp_which "g++${gp_f#gcc}" || :
    gp_record gcc "$gp_f" "$gp_gcc" "$gp_s" "$gp_w"
  done
  for gp_d in $gp_dirs; do
    gp_glob "$gp_d/python*"
    for gp_f in $gp_list; do
      case ${gp_f##*/python} in *[!0-9.]*) continue ;; esac
      if gp_real "$gp_f"; then gp_record python "$gp_f" "$gp_p"; else gp_record python "$gp_f" ''; fi
    done
  done
  gp_done tools
}
