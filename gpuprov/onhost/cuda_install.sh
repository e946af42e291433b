#!/bin/sh
# Install a CUDA toolkit from NVIDIA's .run file, and nothing else: no driver, no link moved, no linker path.
#
# As root the installer moves /usr/local/cuda and writes ld.so.conf.d, whatever it is told. So it runs as a user who can do
# neither, into a staging folder beside the final place; what it made is then checked, adopted, given its manifest and
# renamed to its place, which is the last thing that happens.
# Text before it: manifest_list.sh, manifest_write.sh, job_head.sh, manifest_ours.sh, manifest_look.sh, cuda_stage.sh,
# cuda_outside.sh.
# In:  what cuda_stage.sh reads; gp_run (the file), gp_size (its bytes, 0: not known), gp_head (for the manifest),
#      gp_known (known failures, one a line: a text in the installer's output or log, a tab, the cause),
#      gp_arguments COMMAND...: a function that calls it with the installer's arguments, of $gp_made and $gp_tmp.
# Ends with 0
#           1   the installer failed; the errors in its log, and their cause where it is known, are printed
#           10  what stands at the path is not ours
#           11  not enough space
#           12  it cannot be run here: noexec, no way to another user, a file or command is missing
#           13  something outside the toolkit changed meanwhile
#           14  the installer said that all is well, and it is not
# shellcheck disable=SC2154  # the variables are set by what precedes

gp_size_of() { stat -c %s "$1"; }
gp_mib() { echo $((($1 + 1048575) / 1048576)); }
gp_free() { # folder: bytes that can be written below it
  df -Pk "$1" | while read -r _ _ _ gp_kib _; do
    case $gp_kib in '' | *[!0-9]*) ;; *) echo $((gp_kib * 1024)) ;; esac
  done
}

# --- another user --------------------------------------------------------------------------------

# A user number that nobody has and that runs nothing: what it can reach is what everybody can. Below 65536, because
# a container may have no more than that.
gp_pick_user() {
  gp_busy=" $(stat -c %u /proc/[0-9]* 2>/dev/null | sort -u | tr '\n' ' ')"
  gp_u=65432
  while [ $gp_u -gt 65400 ]; do
    if ! grep -q "^[^:]*:[^:]*:$gp_u:" /etc/passwd; then
      case $gp_busy in *" $gp_u "*) ;; *) return ;; esac
    fi
    gp_u=$((gp_u - 1))
  done
}

gp_pick_way() { # Out: gp_how, gp_u, gp_g
  gp_u=$gp_me gp_g=$(id -g) gp_how=self
  [ "$gp_me" = 0 ] || return 0
  gp_pick_user
  gp_g=$gp_u gp_how=setpriv
  if setpriv --reuid=$gp_u --regid=$gp_u --clear-groups --no-new-privs true 2>/dev/null; then return 0; fi
  gp_u=$(id -u nobody 2>/dev/null) && gp_g=$(id -g nobody) && for gp_how in runuser su; do
    if (gp_become true) 2>/dev/null; then return 0; fi
  done
  gp_stop 12 "there is no way on this host to run the installer as another user than root" \
    "as root it would move /usr/local/cuda; install the package util-linux (setpriv, runuser)"
}

gp_become() {
  case $gp_how in
  self) "$@" ;;
  setpriv) setpriv --reuid="$gp_u" --regid="$gp_g" --clear-groups --no-new-privs "$@" ;;
  runuser) runuser -u nobody -- "$@" ;;
  su) su -s /bin/sh -c 'exec "$@"' -- nobody sh "$@" ;;
  esac
}

# gp_as COMMAND...: as that user, with nothing of our environment but the mark by which a job's processes are found.
# SUDO_USER above all: the installer may hand files to that user.
gp_as() {
  gp_become env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$gp_home" TMPDIR="$gp_tmp" \
    LC_ALL=C GPUPROV_JOB="${GPUPROV_JOB:-}" "$@"
}

# --- before --------------------------------------------------------------------------------------

gp_check_file() {
  [ -f "$gp_run" ] || gp_stop 12 "the installer $gp_run is not there"
  gp_bytes=$(gp_size_of "$gp_run")
  if [ "$gp_size" -gt 0 ] && [ "$gp_bytes" != "$gp_size" ]; then
    gp_stop 12 "the installer $gp_run has $gp_bytes bytes and must have $gp_size: remove it, it is then fetched again"
  fi
}

# Twice the file to unpack it, once and a half for the tree; all of it lies on the file system of the final place.
gp_check_space() {
  gp_need=$((gp_bytes * 7 / 2 + $1))
  gp_have=$(gp_free "$gp_stage")
  [ -n "$gp_have" ] || gp_stop 11 "df does not say how much space there is in $gp_parent"
  if [ "$gp_have" -lt $gp_need ]; then
    gp_stop 11 "not enough space in $gp_parent: $(gp_mib "$gp_have") MiB are free, and unpacking and installing needs about $(gp_mib $gp_need) MiB" \
      "make room there, or give the toolkit a path on another file system"
  fi
}

gp_check_user() {
  # shellcheck disable=SC2016  # for the inner shell
  if ! gp_as sh -c 'cd "$1" && [ -w . ]' sh "$gp_room" 2>"$gp_work/why"; then
    gp_stop 12 "user $gp_u, as whom the installer runs, cannot get into $gp_parent: $(cat "$gp_work/why")" \
      "each folder above it must be open to others (mode o+x); give the toolkit another path"
  fi
  printf '#!/bin/sh\nexit 0\n' >"$gp_room/try"
  chmod 755 "$gp_room/try"
  if ! gp_as "$gp_room/try" 2>"$gp_work/why"; then
    gp_stop 12 "programs cannot be run in $gp_parent, it seems to be mounted noexec: $(cat "$gp_work/why")" \
      "give the toolkit a path on another file system"
  fi
  rm -f "$gp_room/try"
}

# The cache is closed to others. A second name for the file costs nothing, a copy its size.
gp_lend_file() {
  gp_file=$gp_run
  # shellcheck disable=SC2016
  if gp_as sh -c '[ -r "$1" ]' sh "$gp_file"; then return 0; fi
  gp_file=$gp_room/cuda.run
  # shellcheck disable=SC2016
  if ln "$gp_run" "$gp_file" 2>/dev/null && gp_as sh -c '[ -r "$1" ]' sh "$gp_file"; then return 0; fi
  rm -f "$gp_file"
  gp_check_space "$gp_bytes"
  gp_say "copying the installer to where user $gp_u can read it"
  cp "$gp_run" "$gp_file"
  chmod 644 "$gp_file"
}

# The installer crashes at its start when its log belongs to somebody else.
gp_clear_log() {
  if [ ! -e "$gp_log" ] && [ ! -L "$gp_log" ]; then return 0; fi
  gp_owner=$(stat -c %u "$gp_log")
  if [ "$gp_me" = 0 ] || [ "$gp_owner" = "$gp_me" ]; then
    if [ "$gp_owner" = "$gp_u" ] && [ "$gp_me" = 0 ]; then rm -f "$gp_log"; else mv "$gp_log" "$gp_stage/former.log"; fi
  else
    gp_stop 12 "$gp_log belongs to user $gp_owner, and NVIDIA's installer crashes on it" \
      "have it removed by that user or by root"
  fi
}

gp_take_log() {
  if [ -f "$gp_log" ] && [ ! -L "$gp_log" ] && [ "$(stat -c %u "$gp_log")" = "$gp_u" ]; then
    cp "$gp_log" "$gp_work/installer.log"
    rm -f "$gp_log"
  fi
  if [ -f "$gp_stage/former.log" ] && [ ! -e "$gp_log" ]; then mv "$gp_stage/former.log" "$gp_log"; fi
}

gp_check_library() {
  for gp_c in ldconfig /sbin/ldconfig /usr/sbin/ldconfig; do
    command -v $gp_c >/dev/null || continue
    case $($gp_c -p 2>/dev/null) in
    *libxml2.so.2*) ;;
    *) gp_say "warning: libxml2.so.2 is not on this host, and NVIDIA's installer may need it (package libxml2)" ;;
    esac
    return 0
  done
}

# --- during --------------------------------------------------------------------------------------

# The installer says nothing while it works. What was written shows that it does; without growth silence is silence.
gp_watch() {
  gp_last=0
  while :; do
    gp_n=0
    while [ $gp_n -lt 20 ]; do
      sleep 1 >/dev/null 2>&1
      [ -d "$gp_room" ] || exit 0
      gp_n=$((gp_n + 1))
    done
    gp_now=0
    for gp_d in "$gp_tmp" "$gp_made"; do
      gp_s=$(du -sk "$gp_d" 2>/dev/null) || :
      gp_s=${gp_s%%[!0-9]*}
      gp_now=$((gp_now + ${gp_s:-0}))
    done
    if [ $gp_now != $gp_last ]; then gp_say "installing: $((gp_now / 1024)) MiB written"; fi
    gp_last=$gp_now
  done
}

# Only when something is wrong: its summary tells people to use the staging folder.
gp_show_output() { tail -n 60 "$gp_work/installer.out"; }

gp_failed() { # status of the installer
  gp_show_output
  if [ -f "$gp_work/installer.log" ]; then
    # The line is cut at the end of a buffer at times, so what is asked for is the mark alone.
    grep -i '\[error\]' "$gp_work/installer.log" | sed -n '1,20s/^/installer log: /p' >&2 || :
  fi
  gp_tab=$(printf '\t')
  printf '%s\n' "$gp_known" >"$gp_work/known"
  while IFS=$gp_tab read -r gp_text gp_cause; do
    [ -n "$gp_text" ] || continue
    cat "$gp_work/installer.out" "$gp_work/installer.log" 2>/dev/null | grep -qF -e "$gp_text" || continue
    gp_speak "known cause: $gp_cause"
    break
  done <"$gp_work/known"
  if [ "$1" -gt 128 ] && [ "$1" -lt 160 ]; then
    gp_stop 1 "NVIDIA's installer was ended by signal $(($1 - 128)) (status $1); 11 is a crash, 9 often means that memory ran out"
  fi
  gp_stop 1 "NVIDIA's installer ended with status $1"
}

gp_install() {
  gp_say "installing CUDA $gp_version as user $gp_u from ${gp_run##*/}"
  : >"$gp_work/installer.out"
  gp_watch 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
  gp_watcher=$!
  gp_rc=0
  (cd "$gp_room" && gp_arguments gp_as sh "$gp_file") </dev/null >"$gp_work/installer.out" 2>&1 || gp_rc=$?
  kill $gp_watcher 2>/dev/null || :
  wait $gp_watcher 2>/dev/null || :
  gp_take_log
  [ $gp_rc -eq 0 ] || gp_failed $gp_rc
}

# --- after ---------------------------------------------------------------------------------------

gp_not_whole() {
  gp_show_output
  gp_stop 14 "NVIDIA's installer ended well, and yet $1" "nothing was put to $gp_path"
}

# Status 0 is no proof.
gp_check_made() {
  if [ ! -d "$gp_made" ] || [ -L "$gp_made" ]; then gp_not_whole "it made no toolkit"; fi
  if [ ! -f "$gp_made/bin/nvcc" ]; then gp_not_whole "bin/nvcc is missing"; fi
  gp_s=$(gp_as "$gp_made/bin/nvcc" --version 2>&1) || gp_not_whole "bin/nvcc does not run: $gp_s"
  case $gp_s in
  *"release $gp_version,"*) ;;
  *"release "[0-9]*,*)
    gp_s=${gp_s#*release }
    gp_stop 14 "the installer ${gp_run##*/} is for CUDA ${gp_s%%,*}, and CUDA $gp_version is wanted: bin/nvcc is not of release $gp_version" \
      "name the .run file of CUDA $gp_version with its sum (url and sha256); nothing was put to $gp_path"
    ;;
  *) gp_not_whole "bin/nvcc is not of release $gp_version: $gp_s" ;;
  esac
  if [ ! -s "$gp_made/version.json" ] && [ ! -s "$gp_made/version.txt" ]; then
    gp_not_whole "version.json is missing, and version.txt as well"
  fi
  gp_s=$(readlink -f "$gp_made/lib64/libcudart.so") || gp_s=''
  gp_real=$(readlink -f "$gp_made")
  case $gp_s in
  "$gp_real"/*) [ -s "$gp_s" ] || gp_not_whole "lib64/libcudart.so leads to an empty file" ;;
  *) gp_not_whole "lib64/libcudart.so does not lead to a library in the toolkit" ;;
  esac
}

# Text files and links name the staging folder where they must name the final one. Programs are never edited: what is in
# them is found by their own place.
gp_fix_paths() {
  gp_fixed=0 gp_left=0
  # For sed: the folder as a pattern, and the path as a replacement.
  gp_from=$(printf '%s\n' "$gp_was" | sed 's/[][\.*^$|]/\\&/g')
  gp_to=$(printf '%s\n' "$gp_path" | sed 's/[\&|]/\\&/g')
  find "$gp_tree" -type f -size -2048k -print0 | xargs -0 -r grep -lF -e "$gp_was" >"$gp_work/named" || :
  while IFS= read -r gp_f; do
    [ -f "$gp_f" ] || continue
    if [ "$(tr -cd '\000' <"$gp_f" | wc -c)" -gt 0 ]; then
      gp_left=$((gp_left + 1))
      continue
    fi
    sed "s|$gp_from|$gp_to|g" "$gp_f" >"$gp_work/fixed"
    cat "$gp_work/fixed" >"$gp_f"
    gp_fixed=$((gp_fixed + 1))
  done <"$gp_work/named"
  find "$gp_tree" -type l >"$gp_work/links"
  while IFS= read -r gp_f; do
    gp_s=$(readlink "$gp_f") || continue
    case $gp_s in
    "$gp_was"/*)
      ln -sfn "$gp_path${gp_s#"$gp_was"}" "$gp_f"
      gp_fixed=$((gp_fixed + 1))
      ;;
    esac
  done <"$gp_work/links"
  gp_say "wrote the final path into texts and links ($gp_fixed); programs that name the former one stay as they are ($gp_left)"
}

gp_adopt() {
  # Into a folder of ours first: what is left of the other user's processes can then no longer reach it.
  gp_was=$gp_made gp_tree=$gp_stage/tree
  mv -T "$gp_made" "$gp_tree"
  if [ "$gp_me" = 0 ]; then chown -hR 0:0 "$gp_tree"; fi
  chmod -R u+rwX,go+rX,go-w,a-st "$gp_tree"
  rm -rf "$gp_room"
  gp_fix_paths
}

gp_check_outside() {
  gp_outside >"$gp_work/after"
  if gp_compare "$gp_work/before" "$gp_work/after" >"$gp_work/differs"; then
    cat "$gp_work/differs"
    return 0
  fi
  cat "$gp_work/differs" >&2
  # A link that leads to us is the installer's doing, and ours to put back; any other is somebody's choice.
  gp_s=$(readlink /usr/local/cuda) || gp_s=''
  gp_back=''
  case $gp_me${gp_s%/} in "0$gp_was" | "0$gp_path")
    if [ -n "$gp_link" ]; then ln -sfn "$gp_link" /usr/local/cuda; else rm -f /usr/local/cuda; fi
    gp_back="; /usr/local/cuda was put back"
    ;;
  esac
  gp_stop 13 "something outside the toolkit changed while it was installed$gp_back" "nothing was put to $gp_path"
}

# -------------------------------------------------------------------------------------------------

gp_check_file
if [ -e "$gp_path" ] || [ -L "$gp_path" ]; then
  if ! gp_is_ours && ! { [ ! -L "$gp_path" ] && rmdir "$gp_path" 2>/dev/null; }; then
    gp_stop 10 "$gp_path is something else by now than what was looked at, and is left alone"
  fi
fi
gp_stage_open
# The way to the room is open to others, the room to its user alone.
chmod 711 "$gp_stage"
gp_room=$gp_stage/run gp_made=$gp_stage/run/tree gp_tmp=$gp_stage/run/tmp gp_home=$gp_stage/run/home
mkdir "$gp_room" "$gp_tmp" "$gp_home"
gp_pick_way
if [ "$gp_me" = 0 ]; then chown "$gp_u:$gp_g" "$gp_room" "$gp_tmp" "$gp_home"; fi
gp_check_space 0
gp_check_user
gp_lend_file
gp_check_library
gp_clear_log
gp_outside >"$gp_work/before"
gp_link=$(readlink /usr/local/cuda) || gp_link=''
gp_install
gp_check_made
gp_adopt
gp_say "reading all files once, for the manifest"
gp_manifest_write "$gp_tree" "$gp_work" "$gp_head"
if gp_is_ours; then gp_keep "$gp_tree"; fi
{ sync -f "$gp_tree" || sync; } 2>/dev/null
gp_check_outside
gp_say "putting CUDA $gp_version to $gp_path"
gp_swap "$gp_tree"
