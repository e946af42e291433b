#!/bin/sh
# Tell what stands where a conda environment is to be, and which tool could make one. Read-only, and starts no process.
# In:  gp_path   where the environment stands or will stand
#      gp_tool   the tool to use, or empty: micromamba, mamba or conda on PATH, then those of gp_bases
#      gp_bases  conda installations, one a line
# Out of gp_conda_look, a word and a value a line:
#      tool PATH          nothing when there is none
#      left NAME          what an attempt that was cut off left beside it
#      state absent | link | file | empty | ours | base | conda | venv | other
#      ours: head LINE    of manifest.json, down to its lists
#            damage KIND PATH, total KIND N   as manifest_look.sh has them
#      end
# shellcheck disable=SC2154  # the variables are set by what precedes
gp_parent=${gp_path%/*}
gp_name=${gp_path##*/}
gp_mark=$gp_parent/.gpuprov-$gp_name.making
gp_old=$gp_parent/.gpuprov-$gp_name.former
gp_gone=$gp_parent/.gpuprov-$gp_name.removed

# True when what stands at the path is the very folder that the marked attempt made, which the mark's second line names.
# A mark alone proves nothing: the attempt may be long dead, and somebody have made an environment there since. It is known
# by number and birth, and not by its device, which has another number once a host was started again.
gp_is_marked() {
  [ -f "$gp_mark" ] && [ ! -L "$gp_mark" ] || return 1
  gp_inode=
  { read -r _ && read -r gp_inode; } <"$gp_mark" 2>/dev/null || :
  [ -n "$gp_inode" ] && [ "$gp_inode" = "$(stat -c %i:%W "$gp_path" 2>/dev/null)" ]
}

# Sets gp_found: the tool, or nothing.
gp_conda_tool() {
  gp_found=''
  if [ -n "$gp_tool" ]; then
    gp_conda_try "$gp_tool" || :
    return 0
  fi
  for gp_c in micromamba mamba conda; do
    gp_s=$(command -v $gp_c) || continue
    if gp_conda_try "$gp_s"; then return 0; fi
  done
  while IFS= read -r gp_b; do
    [ -n "$gp_b" ] || continue
    for gp_c in bin/micromamba bin/mamba bin/conda condabin/conda; do
      if gp_conda_try "$gp_b/$gp_c"; then return 0; fi
    done
  done <<GP_BASES
$gp_bases
GP_BASES
}

gp_conda_try() { # path; sets gp_found when it is a program
  case $1 in /*) ;; *) return 1 ;; esac
  [ -f "$1" ] && [ -x "$1" ] || return 1
  gp_found=$1
}

# Sets gp_state.
gp_conda_state() {
  if [ -L "$gp_path" ]; then gp_state='link'
  elif [ ! -e "$gp_path" ]; then gp_state=absent
  elif [ ! -d "$gp_path" ]; then gp_state='file'
  elif [ -f "$gp_path/manifest.json" ]; then gp_state=ours
  elif [ -d "$gp_path/conda-meta" ]; then
    gp_state=conda
    if [ -d "$gp_path/condabin" ] || [ -d "$gp_path/pkgs" ]; then gp_state=base; fi
  elif [ -f "$gp_path/pyvenv.cfg" ]; then gp_state=venv
  else
    gp_state=empty
    for gp_f in "$gp_path"/* "$gp_path"/.[!.]* "$gp_path"/..?*; do
      if [ -e "$gp_f" ] || [ -L "$gp_f" ]; then gp_state=other; break; fi
    done
  fi
}

gp_conda_lacks() { # path below the environment
  gp_lacking=$((gp_lacking + 1))
  [ $gp_lacking -gt 20 ] || printf 'damage missing %s\n' "$1"
}

# Print what the manifest says, and what is no longer there of it.
gp_conda_ours() {
  [ -r "$gp_path/manifest.json" ] || { echo "$gp_path/manifest.json cannot be read" >&2; return 1; }
  gp_part=head gp_n=0 gp_lacking=0 gp_interpreter=''
  while [ $gp_n -lt 20000 ] && IFS= read -r gp_s; do
    gp_n=$((gp_n + 1))
    case $gp_part:$gp_s in
    *:'"explicit": ['*) gp_part=explicit ;;
    *:'"records": ['*) gp_part=records ;;
    head:'"interpreter": "'*\\*) ;;
    head:'"interpreter": "'*) gp_s=${gp_s#*': "'} gp_interpreter=${gp_s%'",'} ;;
    head:*) if [ $gp_n -lt 20 ]; then printf 'head %s\n' "$gp_s"; fi ;;
    records:']'*) gp_part=end ;;
    records:*\\* | records:*/*) ;;
    records:'"'*)
      gp_s=${gp_s#'"'} gp_s=${gp_s%,} gp_s=${gp_s%'"'}
      [ -f "$gp_path/conda-meta/$gp_s.json" ] || gp_conda_lacks "conda-meta/$gp_s.json"
      ;;
    esac
  done <"$gp_path/manifest.json"
  [ "$gp_part" = end ] || printf 'damage truncated manifest.json\ntotal truncated 1\n'
  gp_any=''
  for gp_f in "$gp_path"/lib/python3*/site-packages; do
    if [ -d "$gp_f" ]; then gp_any=yes; fi
  done
  [ -n "$gp_any" ] || gp_conda_lacks lib/python3/site-packages
  # shellcheck disable=SC3013  # dash, bash and busybox all know -ef
  if [ ! -f "$gp_path/bin/python" ]; then
    gp_conda_lacks bin/python
  elif [ ! -x "$gp_path/bin/python" ]; then
    printf 'damage mode bin/python\ntotal mode 1\n'
  elif [ -n "$gp_interpreter" ] && ! [ "$gp_path/bin/python" -ef "$gp_interpreter" ]; then
    printf 'damage changed bin/python\ntotal changed 1\n'
  fi
  if [ $gp_lacking -gt 0 ]; then printf 'total missing %s\n' $gp_lacking; fi
}

gp_conda_look() {
  gp_conda_tool
  if [ -n "$gp_found" ]; then printf 'tool %s\n' "$gp_found"; fi
  for gp_f in "$gp_mark" "$gp_old" "$gp_gone"; do
    # The mark of another folder than the one that stands here now says nothing of it
    if [ "$gp_f" = "$gp_mark" ] && [ -d "$gp_path" ] && [ ! -f "$gp_path/manifest.json" ] && ! gp_is_marked; then
      continue
    fi
    if [ -e "$gp_f" ]; then printf 'left %s\n' "${gp_f##*/}"; fi
  done
  gp_conda_state
  printf 'state %s\n' $gp_state
  if [ $gp_state = ours ]; then gp_conda_ours || return; fi
  echo end
}
