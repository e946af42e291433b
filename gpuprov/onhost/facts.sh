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
# shellcheck disable=SC2034,SC2086,SC2088,SC2154,SC2209
set +eu
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
gp_timeout=
if command -v timeout >/dev/null 2>&1; then gp_timeout=timeout; fi

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
gp_glob() { # pattern: sets gp_list to what matches, one a line
  gp_list=
  set +f
  for gp_x in $1; do
    # a link is not followed: it may lead to a network mount
    if [ -L "$gp_x" ] || [ -e "$gp_x" ]; then gp_list=$gp_list$gp_x$gp_n; fi
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
gp_real() { # path: sets gp_p to it without links; false: it ends nowhere, or gp_why says why we cannot follow it
  gp_todo=${1#/} gp_p='' gp_hops=0 gp_why=
  while [ -n "$gp_todo" ]; do
    gp_word=${gp_todo%%/*}
    case $gp_todo in */*) gp_todo=${gp_todo#*/} ;; *) gp_todo= ;; esac
    case $gp_word in
    '' | .) ;;
    ..) gp_p=${gp_p%/*} ;;
    *)
      gp_p=$gp_p/$gp_word
      if ! gp_local "$gp_p"; then
        gp_why="below the network mount $gp_p"
        return 1
      fi
      if [ -L "$gp_p" ]; then
        gp_hops=$((gp_hops + 1))
        [ $gp_hops -le 20 ] || return 1
        if ! gp_to=$(readlink "$gp_p" 2>/dev/null); then
          gp_why="the link $gp_p cannot be read"
          return 1
        fi
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

gp_short() { # command...: runs what should end at once, but may wait for a name service or a bad disk
  if [ -n "$gp_timeout" ]; then "$gp_timeout" -s KILL 5 "$@"; else "$@"; fi
}

# Runs what may hang, even beyond SIGKILL. Prints the first bytes of its output and then, on a line of its
# own, its status or the word timeout. The reader stops at a mark, so that it never waits for the end of a
# pipe which a stuck process holds open.
gp_bounded() { # seconds bytes command...
  gp_secs=$1 gp_limit=$2
  shift 2
  {
    (
      sleep $gp_secs >/dev/null &
      printf '%s watch %s\n' $gp_mark $!
      wait $! && printf '\n%s timeout\n' $gp_mark
    ) &
    (
      (
        IFS=' ' read -r gp_x _ </proc/self/stat && printf '%s work %s\n' $gp_mark "$gp_x"
        if [ "$1" = call ]; then "$2"; else exec "$@"; fi
      ) 2>&1
      printf '\n%s end %s\n' $gp_mark $?
    ) &
  } 2>/dev/null 3>&- | {
    gp_all='' gp_watch='' gp_work='' gp_rc=
    while IFS= read -r gp_s; do
      case $gp_s in
      "$gp_mark watch "*) gp_watch=${gp_s##* } ;;
      "$gp_mark work "*) gp_work=${gp_s##* } ;;
      "$gp_mark end "*) gp_rc=${gp_s##* } ;;
      "$gp_mark timeout") gp_rc=timeout ;;
      *) [ ${#gp_all} -gt $gp_limit ] || gp_all=$gp_all$gp_s$gp_n ;;
      esac
      [ -z "$gp_rc" ] || [ -z "$gp_watch" ] || break
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
  gp_all=$(gp_short stat -f -c '%a %b %S %d %c %n' $gp_sized 2>/dev/null)
  [ -n "$gp_all" ] || gp_record unseen 'mount sizes' 'no stat -f here'
  for gp_s in $gp_all; do gp_record space "$gp_s"; done
  gp_path_folders
  gp_done mounts
}

gp_path_folders() { # sets gp_dirs: the local folders of PATH, one a line
  gp_dirs=
  IFS=:
  for gp_d in $PATH; do
    IFS=$gp_n
    case $gp_d in *"$gp_n"* | [!/]* | '') continue ;; esac
    if gp_local "$gp_d"; then gp_add gp_dirs "$gp_d" || :; else gp_record unseen "PATH folder $gp_d" 'on a network mount'; fi
  done
  IFS=$gp_n
}

gp_group_identity() {
  gp_file hostname /proc/sys/kernel/hostname
  if ! gp_id=$(gp_short id 2>/dev/null); then
    gp_record unseen user 'the command id is missing or does not answer'
    [ -r /proc/self/status ] && while read -r gp_s; do
      case $gp_s in Uid:*) gp_id=uid=${gp_s#Uid:?} && break ;; esac
    done </proc/self/status
  fi
  gp_record id "$gp_id"
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
  [ -r /proc/1/cgroup ] && while IFS= read -r gp_s; do gp_record cgroup "$gp_s"; done </proc/1/cgroup
  # the names only: the values are the renter's and the provider's secrets
  if gp_all=$({ tr '\0' '\n' </proc/1/environ; } 2>/dev/null); then
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
    gp_s=$(gp_short "$gp_gcc" -dumpfullversion -dumpversion 2>/dev/null)
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

gp_smi() { # fields: asks nvidia-smi, or shows its table when there are none; sets gp_rc
  if [ -n "$1" ]; then set -- "$gp_smi" --query-gpu="$1" --format=csv,noheader,nounits; else set -- "$gp_smi"; fi
  # timeout ends a whole process group; the watch inside gp_bounded is for what even that cannot end
  if [ -n "$gp_timeout" ]; then set -- "$gp_timeout" -s KILL 10 "$@"; fi
  gp_all=$(gp_bounded 11 4096 "$@")
  gp_rc=${gp_all##*"$gp_n"}
  gp_all=${gp_all%"$gp_n"*}
}

gp_group_driver() {
  gp_smi=
  for gp_d in $gp_dirs /usr/bin /usr/local/nvidia/bin /usr/lib/wsl/lib; do
    if [ -f "$gp_d/nvidia-smi" ]; then gp_smi=$gp_d/nvidia-smi && break; fi
  done
  if [ -f /proc/driver/nvidia/version ] && gp_s=$(cat /proc/driver/nvidia/version 2>/dev/null); then gp_record module "$gp_s"; fi
  gp_glob '/dev/nvidia*'
  for gp_f in $gp_list; do [ -d "$gp_f" ] || gp_record device "$gp_f"; done
  if [ -d /sys/bus/pci/devices ]; then
    gp_record pci-bus yes
    gp_glob '/sys/bus/pci/devices/*'
    for gp_d in $gp_list; do
      if ! gp_line "$gp_d/vendor" || [ "$gp_s" != 0x10de ]; then continue; fi
      gp_line "$gp_d/class"
      gp_kind=$gp_s
      gp_line "$gp_d/device"
      gp_to=$(readlink "$gp_d/driver" 2>/dev/null)
      gp_record pci "${gp_d##*/}" "$gp_kind" "$gp_s" "${gp_to##*/}"
    done
  fi
  gp_libs=
  for gp_f in ldconfig /sbin/ldconfig /usr/sbin/ldconfig; do
    gp_all=$(gp_short "$gp_f" -p 2>/dev/null) || continue
    for gp_s in $gp_all; do
      case $gp_s in *libcuda.so.1\ *) gp_add gp_libs "${gp_s##* => }" || : ;; esac
    done
    gp_record ldconfig yes
    break
  done
  gp_cached=$gp_libs
  for gp_d in /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib /usr/local/nvidia/lib64 /usr/lib/wsl/lib; do
    if [ -e $gp_d/libcuda.so.1 ]; then gp_add gp_libs $gp_d/libcuda.so.1 || :; fi
  done
  for gp_f in $gp_libs; do
    case $gp_n$gp_cached in *"$gp_n$gp_f$gp_n"*) gp_kind=cached ;; *) gp_kind=uncached ;; esac
    if gp_real "$gp_f" && [ ! -s "$gp_p" ]; then gp_kind=$gp_kind,empty; fi
    gp_record libcuda "$gp_f" "$gp_p" $gp_kind
  done
  gp_record smi-path "$gp_smi"
  if [ -n "$gp_smi" ]; then
    gp_base=index,name,uuid,memory.total,driver_version,pci.bus_id
    gp_fields=$gp_base,compute_cap,mig.mode.current
    gp_smi $gp_fields
    # one field that an older driver does not know spoils the whole answer
    case $gp_all in *'is not a valid field'*)
      gp_fields=$gp_base
      gp_smi $gp_fields
      ;;
    esac
    gp_record smi-query "$gp_rc" "$gp_fields" "$gp_all"
    gp_ended=$gp_rc
    case $gp_rc in
    timeout | 137) ;; # do not hang a second one
    *)
      gp_smi ''
      gp_record smi-table "$gp_rc" "$gp_all"
      ;;
    esac
    case $gp_ended in 0 | timeout | 137) gp_ended= ;; esac
    if [ -n "$gp_ended" ] && [ -c /dev/nvidiactl ]; then
      gp_all=$(gp_bounded 3 400 call gp_open_driver)
      gp_record open "${gp_all##*"$gp_n"}" "${gp_all%"$gp_n"*}"
    fi
  fi
  gp_done driver
}
gp_open_driver() {
  : </dev/nvidiactl
}

gp_toolkit() { # folder
  gp_kind='' gp_version='' gp_nvcc='' gp_lib='' gp_rt='' gp_own=''
  if [ -L "$1" ]; then gp_kind=link; fi
  if ! gp_real "$1"; then
    if [ -n "$gp_why" ]; then gp_record unseen "toolkit $1" "$gp_why"; else gp_record toolkit "$1" "$gp_p" dangling '' '' '' '' ''; fi
    return 0
  fi
  [ -d "$gp_p" ] || return 0
  # an empty folder is no toolkit: one may be made in it
  if [ -z "$gp_kind" ] && [ -r "$gp_p" ]; then
    gp_glob "$gp_p/*$gp_n$gp_p/.[!.]*"
    [ -n "$gp_list" ] || return 0
  fi
  if [ -f "$gp_p/version.json" ] && [ -r "$gp_p/version.json" ]; then
    gp_key=
    while IFS= read -r gp_s && [ -z "$gp_nvcc" ]; do
      case $gp_s in
      *'"cuda"'*) gp_key=cuda ;;
      *'"cuda_nvcc"'*) gp_key=nvcc ;;
      *'"version"'*)
        gp_s=${gp_s#*:*\"}
        case $gp_key in cuda) gp_version=${gp_s%%\"*} ;; nvcc) gp_nvcc=${gp_s%%\"*} ;; esac
        gp_key=
        ;;
      esac
    done <"$gp_p/version.json"
  elif gp_line "$gp_p/version.txt"; then
    gp_version=$gp_s
  fi
  gp_glob "$gp_p/lib64/libcudart.so.*.*.*"
  for gp_f in $gp_list; do gp_lib=${gp_f##*/}; done
  # images made by NVIDIA carry neither version file
  if [ -z "$gp_version$gp_lib" ] && [ -f "$gp_p/include/cuda.h" ]; then
    gp_lib=$(grep -m 1 'define CUDA_VERSION' "$gp_p/include/cuda.h" 2>/dev/null)
  fi
  if [ -x "$gp_p/bin/nvcc" ]; then gp_rt=nvcc; fi
  if [ -f "$gp_p/include/cuda_runtime.h" ]; then gp_rt=$gp_rt,headers; fi
  if [ -f "$gp_p/manifest.json" ]; then gp_own=manifest; fi
  gp_record toolkit "$1" "$gp_p" "$gp_kind" "$gp_version" "$gp_nvcc" "$gp_lib" "$gp_rt" "$gp_own"
}

gp_group_toolkits() {
  gp_seen=
  for gp_d in /usr/local "${gp_paths_toolkits:-}" /usr/lib/cuda /usr/lib/nvidia-cuda-toolkit; do
    case $gp_d in '~/'*) gp_d=$HOME/${gp_d#'~/'} ;; '') continue ;; esac
    case $gp_d in *cuda*) ;; *) if gp_real "$gp_d"; then gp_d=$gp_d/cuda\*; else continue; fi ;; esac
    gp_glob "$gp_d"
    for gp_f in $gp_list; do gp_add gp_seen "$gp_f" || :; done
  done
  for gp_d in $gp_seen; do gp_toolkit "$gp_d"; done
  gp_done toolkits
}

gp_scan_processes() {
  gp_kind='jupyter|tensorboard|supervisord|sshd|caddy|nginx|instance_portal|tunnel_manager|autopanel|syncthing|cloudflared'
  gp_glob '/proc/[0-9]*'
  gp_all=
  for gp_d in $gp_list; do gp_all=$gp_all$gp_d/cmdline$gp_n; done
  for gp_f in tr grep; do
    command -v $gp_f >/dev/null || { gp_record unseen services "no $gp_f here" && return 0; }
  done
  gp_all=$(grep -lE "$gp_kind" $gp_all 2>/dev/null)
  gp_ns=$(readlink /proc/self/ns/pid 2>/dev/null)
  for gp_f in $gp_all; do
    gp_d=${gp_f%/cmdline}
    gp_argv=$(tr '\0\n' '\n ' <$gp_f 2>/dev/null) || continue
    # a session of sshd, a shell that only mentions one of these (ours among them), a renter's notebook kernel
    case $gp_argv in "sshd: "*listener* | "sshd: /"*) ;; 'sshd:'* | *ipykernel*) continue ;; esac
    case ${gp_argv%%"$gp_n"*} in */sh | sh | -*sh | */dash | */busybox | busybox | *grep | *ssh | *timeout) continue ;; esac
    case $gp_argv in *bash"$gp_n"-*c"$gp_n"*) continue ;; esac
    # a machine that runs containers shows us their processes, which are not this host's
    gp_s=$(readlink $gp_d/ns/pid 2>/dev/null) || gp_s=$gp_ns
    if [ "$gp_s" != "$gp_ns" ]; then continue; fi
    gp_line $gp_d/stat || continue
    gp_start=${gp_s##*)}
    gp_exe=$(readlink $gp_d/exe 2>/dev/null) || gp_exe=
    set -- service "${gp_d#/proc/}" "$gp_start" "$gp_exe"
    gp_before=
    for gp_s in $gp_argv; do
      case $gp_before in *[Tt]oken | *[Pp]assword | *[Ss]ecret | *key) gp_s='(withheld)' ;; esac
      case $gp_s in *[Tt]oken*=* | *[Pp]assw*=* | *[Ss]ecret*=* | *[Kk]ey*=*) gp_s="${gp_s%%=*}=(withheld)" ;; esac
      [ $# -gt 24 ] || set -- "$@" "$gp_s"
      gp_before=$gp_s
    done
    gp_record "$@"
  done
}

gp_group_services() {
  gp_services=$(gp_bounded 5 65536 call gp_scan_processes)
  case ${gp_services##*"$gp_n"} in 0) ;; *) gp_record unseen services 'reading the command lines of /proc did not end' ;; esac
  [ ${#gp_services} -lt 65536 ] || gp_record unseen services 'more of them than are read'
  gp_all=$gp_services gp_services=
  for gp_s in $gp_all; do
    case $gp_s in
    "service$gp_t"*) gp_services=$gp_services$gp_s$gp_n ;;
    "unseen$gp_t"*) ;;
    *) continue ;;
    esac
    printf '%s\n' "$gp_s"
    gp_c=$((gp_c + 1))
  done
  gp_done services
}

gp_conda_version() { # prefix package: sets gp_s to VERSION of conda-meta/PACKAGE-VERSION-BUILD.json, or nothing
  gp_glob "$1/conda-meta/$2-[0-9]*.json"
  gp_s=${gp_list%%"$gp_n"*}
  gp_s=${gp_s##*/"$2"-}
  gp_s=${gp_s%-*}
}
gp_env() { # path: records an environment, once
  if ! gp_real "$1"; then
    [ -z "$gp_why" ] || gp_record unseen "environment $1" "$gp_why"
    return 0
  fi
  gp_add gp_envs "$gp_p" || return 0
  gp_e_path=$gp_p
  if [ -d "$gp_e_path/conda-meta" ]; then
    gp_conda_version "$gp_e_path" python
    gp_record env "$gp_e_path" conda "$gp_s"
  elif [ -f "$gp_e_path/pyvenv.cfg" ] && [ -r "$gp_e_path/pyvenv.cfg" ]; then
    gp_e_version=
    while IFS= read -r gp_s || [ -n "$gp_s" ]; do
      case $gp_s in version*=*) gp_e_version=${gp_s#*=} ;; esac
    done <"$gp_e_path/pyvenv.cfg"
    gp_record env "$gp_e_path" venv "$gp_e_version"
  else
    return 0
  fi
  if [ -f "$gp_e_path/manifest.json" ]; then gp_record manifest "$gp_e_path"; fi
}
gp_conda() { # prefix: records a conda installation and its environments, once
  gp_real "$1" && [ -d "$gp_p/conda-meta" ] || return 0
  [ -d "$gp_p/condabin" ] || [ -f "$gp_p/bin/conda" ] || return 0
  gp_add gp_bases "$gp_p" || return 0
  gp_base=$gp_p
  gp_conda_version "$gp_base" conda
  gp_record conda "$gp_base" "$gp_s"
  gp_glob "$gp_base/envs/*"
  for gp_f in $gp_list; do gp_env "$gp_f"; done
}

gp_group_conda() {
  gp_envs='' gp_bases=''
  for gp_d in "${HOME:-/root}" /root /opt /usr/local /environment; do
    for gp_f in miniconda3 anaconda3 miniforge3 mambaforge micromamba conda miniconda; do gp_conda $gp_d/$gp_f; done
  done
  for gp_f in conda mamba; do
    if gp_which $gp_f && gp_real "$gp_w"; then gp_conda "${gp_p%/*/*}"; fi
  done
  for gp_s in $gp_services; do
    IFS=$gp_t
    set -- $gp_s
    IFS=$gp_n
    gp_exe=${4:-}
    case $gp_exe in */bin/*) gp_conda "${gp_exe%/bin/*}" ;; esac
  done
  gp_s=${gp_paths_envs:-}
  case $gp_s in '~/'*) gp_s=$HOME/${gp_s#'~/'} ;; esac
  for gp_d in /venv "${MAMBA_ROOT_PREFIX:-$HOME/micromamba}/envs" $gp_s; do
    gp_real "$gp_d" || continue
    gp_glob "$gp_p/*"
    for gp_f in $gp_list; do gp_env "$gp_f"; done
  done
  gp_f=${HOME:-/root}/.conda/environments.txt
  if gp_real "$gp_f" && [ -f "$gp_p" ] && [ -r "$gp_p" ]; then
    gp_all=$(while IFS= read -r gp_s || [ -n "$gp_s" ]; do printf '%s\n' "$gp_s"; done <"$gp_p")
    for gp_one in $gp_all; do
      gp_conda "$gp_one"
      gp_env "$gp_one"
    done
  fi
  gp_done conda
}

# --- what must not change ------------------------------------------------------------------------

gp_sums() { # file...: one record each
  if [ -z "$gp_sha" ]; then
    for gp_f do gp_record sum 'unseen: no sha256sum' "$gp_f"; done
    return 0
  fi
  [ $# -eq 0 ] || for gp_s in $("$gp_sha" "$@" 2>/dev/null); do gp_record sum "${gp_s%% *}" "${gp_s#*  }"; done
}
gp_site() { # folder of Python packages: the digest of each package's list of files
  gp_real "$1" && [ -d "$gp_p" ] || return 0
  gp_add gp_sites "$gp_p" || return 0
  gp_site=$gp_p
  if ! [ -r "$gp_site" ] || ! cd "$gp_site" 2>/dev/null; then
    gp_record unseen "packages in $gp_site" 'not readable by this user'
    return 0
  fi
  gp_glob '*.dist-info/RECORD'
  gp_all=$gp_list
  gp_glob '*.dist-info'
  gp_dists=$gp_list
  gp_glob '*.egg-info'
  for gp_d in $gp_dists$gp_list; do
    if [ -f "$gp_d/RECORD" ]; then continue; fi
    for gp_f in "$gp_d/METADATA" "$gp_d/PKG-INFO" "$gp_d"; do
      if [ -f "$gp_f" ]; then gp_all=$gp_all$gp_f$gp_n && break; fi
    done
  done
  set -- $gp_all
  if [ -z "$gp_sha" ]; then
    gp_record site "$gp_site" $#
    for gp_f do gp_record dist 'unseen: no sha256sum' "${gp_f%%/*}"; done
  elif [ $# -gt 0 ]; then
    gp_all=$("$gp_sha" -- "$@" 2>/dev/null)
    # the answer must not outgrow what a section may print: then one digest stands for all packages
    if [ $((gp_c + $#)) -gt $gp_most ]; then
      gp_all="$(printf '%s\n' "$gp_all" | "$gp_sha")"
      gp_all="${gp_all%% *}  (all $# packages)"
      set -- all
    fi
    gp_record site "$gp_site" $#
    # of a digest, what tells two apart is enough
    for gp_s in $gp_all; do
      gp_f=${gp_s#*  }
      gp_s=${gp_s%% *}
      gp_record dist "${gp_s%"${gp_s#????????????????}"}" "${gp_f%%/*}"
    done
  fi
  cd /
}

gp_most=1200 # records in this group
gp_group_protected() {
  gp_files=
  for gp_f in /usr/local/cuda /usr/bin/python /usr/bin/python3 /usr/bin/pip /usr/bin/pip3 /usr/local/bin/python \
    /usr/local/bin/python3 /usr/local/bin/pip /usr/local/bin/pip3 \
    /etc/alternatives/cuda /etc/alternatives/gcc /etc/alternatives/g++ /etc/alternatives/cc /etc/alternatives/c++; do
    gp_add gp_files $gp_f || :
  done
  gp_glob '/etc/alternatives/python*'
  gp_sum=
  for gp_f in $gp_files$gp_list; do
    if [ -L "$gp_f" ]; then
      gp_to=$(readlink "$gp_f" 2>/dev/null) || gp_to='unseen: no readlink'
      gp_record link "$gp_f" "$gp_to"
    elif [ -d "$gp_f" ]; then
      gp_record link "$gp_f" '(folder)'
    elif [ -e "$gp_f" ]; then
      gp_sum=$gp_sum$gp_f$gp_n
    fi
  done
  gp_glob '/etc/ld.so.conf.d/*'
  gp_files=$gp_list
  for gp_f in /etc/ld.so.conf /etc/environment /etc/pip.conf "${HOME:-/root}/.condarc" "${HOME:-/root}/.pip/pip.conf" \
    "${XDG_CONFIG_HOME:-${HOME:-/root}/.config}/pip/pip.conf" /etc/conda/.condarc; do
    gp_files=$gp_files$gp_f$gp_n
  done
  for gp_d in $gp_bases; do gp_files=$gp_files$gp_d/.condarc$gp_n; done
  for gp_f in $gp_files; do
    if ! gp_local "$gp_f" || ! [ -f "$gp_f" ]; then continue; fi
    if [ -r "$gp_f" ]; then gp_sum=$gp_sum$gp_f$gp_n; else gp_record sum 'unseen: not readable' "$gp_f"; fi
  done
  gp_sha=
  if gp_which sha256sum; then gp_sha=$gp_w; fi
  gp_sums $gp_sum
  if gp_which dpkg-query; then
    # shellcheck disable=SC2016  # the dollars are dpkg-query's
    gp_all=$(gp_short "$gp_w" -W -f '${db:Status-Abbrev}|${Package}|${Version}|${Architecture}\n' 'python3*' '*protobuf*' \
      'nvidia-*' 'libnvidia-*' openssh-server 'cuda-drivers*' 2>/dev/null)
    # 1 says that a pattern matched nothing
    if [ $? -gt 1 ]; then gp_record unseen packages 'dpkg-query failed or did not answer'; fi
    for gp_s in $gp_all; do
      case $gp_s in un*) ;; *) gp_record dpkg "$gp_s" ;; esac
    done
  elif [ -f /var/lib/dpkg/status ]; then
    gp_record unseen packages 'no dpkg-query here'
  fi
  gp_sites=
  for gp_s in '/usr/lib/python3*/dist-packages' '/usr/local/lib/python3*/dist-packages' '/usr/lib/python3*/site-packages' \
    '/usr/local/lib/python3*/site-packages' "${HOME:-/root}/.local/lib/python3*/site-packages"; do
    gp_local "$gp_s" || continue
    gp_glob "$gp_s"
    for gp_f in $gp_list; do gp_site "$gp_f"; done
  done
  gp_prefixes=$gp_bases
  for gp_s in $gp_services; do
    case $gp_s in *jupyter* | *tensorboard*) ;; *) continue ;; esac
    IFS=$gp_t
    set -- $gp_s
    IFS=$gp_n
    shift 3
    for gp_f do
      case $gp_f in /*/bin/python* | /*/bin/jupyter* | /*/bin/tensorboard*) gp_add gp_prefixes "${gp_f%/bin/*}" || : ;; esac
    done
  done
  for gp_d in $gp_prefixes; do
    case $gp_d in /usr | /usr/local) continue ;; esac
    if ! gp_real "$gp_d"; then
      [ -z "$gp_why" ] || gp_record unseen "packages in $gp_d" "$gp_why"
      continue
    fi
    gp_glob "$gp_p/lib/python3*/site-packages"
    for gp_f in $gp_list; do gp_site "$gp_f"; done
  done
  for gp_d in $gp_bases; do
    gp_glob "$gp_d/conda-meta/*.json"
    if [ $gp_c -gt $gp_most ] && [ -n "$gp_sha" ]; then
      gp_s=$(printf %s "$gp_list" | "$gp_sha")
      gp_record sum "${gp_s%% *}" "$gp_d/conda-meta"
      continue
    fi
    for gp_f in $gp_list; do
      gp_f=${gp_f##*/}
      gp_record meta "$gp_d" "${gp_f%.json}"
    done
  done
  gp_done protected
}

{
  # the driver may take seconds to answer: it is asked while the rest is read, and printed last
  gp_last=$(
    gp_group_mounts >&3
    gp_group_driver &
    {
      gp_group_identity
      gp_group_os
      gp_group_container
      gp_group_resources
      gp_group_tools
      gp_group_toolkits
      gp_group_services
      gp_group_conda
      gp_group_protected
    } >&3
  )
} 3>&1
[ -z "$gp_last" ] || printf '%s\n' "$gp_last"
