# shellcheck shell=sh
# Switching between the CUDA toolkits that lie side by side as FOLDER/cuda-X.Y. See the role's README.md.
#
# The commands cuda-env, cuda-run, cuda-list and cuda-use read this file; each sets gpuprov_cuda_toolkits, the
# folder, and calls one function. All is worked out in a process of its own: what shall change in a shell is
# printed as code for that shell to eval. So its options, IFS, aliases and functions have no say here, and
# nothing from here is left behind there. No command is run, so a broken PATH does not matter either.
#
# What a shell has to remember it keeps in exported variables, so that its children know it too:
#   GPUPROV_CUDA_VERSION, GPUPROV_CUDA_ROOT   the toolkit in use, and its folder
#   GPUPROV_CUDA_OLD_<NAME>                   what the variable was before any toolkit was in use
#   GPUPROV_CUDA_SET_<NAME>                   what we made of it (PATH and LD_LIBRARY_PATH)
# There and below, a variable's state is one string: "-" for unset, else "=" and the value.
#
# A list is what PATH is: entries between colons, which may be empty. Functions return through variables named
# in their comment: command substitution would cost a process and drop newlines at the end.

: "${gpuprov_cuda_toolkits:?}"

# cuda-env X.Y | none: print the code that puts a toolkit in use in the shell that evals it, or undoes that.
gpuprov_cuda_env() {
  # Bytes, not characters: a folder's name may be no text in the user's locale.
  LC_ALL=C
  case $#${1:+named} in
  1named) ;;
  *) refuse 'name one toolkit, or none' ;;
  esac
  if [ "$1" = none ] && [ -z "${GPUPROV_CUDA_ROOT-}" ]; then
    echo ':;'
    return 0
  fi
  [ "$1" = none ] || is_there "$1" || refuse "no CUDA $1 in $gpuprov_cuda_toolkits"
  original PATH
  old_path=$state
  original LD_LIBRARY_PATH
  old_libraries=$state
  original CUDA_HOME
  old_home=$state
  original CUDA_PATH
  old_cuda_path=$state
  if [ "$1" = none ]; then
    for name in VERSION ROOT OLD_PATH OLD_LD_LIBRARY_PATH OLD_CUDA_HOME OLD_CUDA_PATH SET_PATH SET_LD_LIBRARY_PATH; do
      print_code "GPUPROV_CUDA_$name" -
    done
    print_code PATH "$old_path"
    print_code LD_LIBRARY_PATH "$old_libraries"
    print_code CUDA_HOME "$old_home"
    print_code CUDA_PATH "$old_cuda_path"
    return 0
  fi

  wanted=$gpuprov_cuda_toolkits/cuda-$1
  root_of "$old_home"
  home_root=$root
  root_of "$old_cuda_path"
  cuda_path_root=$root

  list='' colon=''
  append "$wanted/bin"
  # An empty PATH is one empty entry, the current folder. An empty LD_LIBRARY_PATH has no entry.
  case $old_path in =*) append_unless is_of_a_toolkit "${old_path#=}" ;; esac
  new_path=$list

  list='' colon=''
  append "$wanted/lib64"
  [ ! -d "$wanted/extras/CUPTI/lib64" ] || append "$wanted/extras/CUPTI/lib64"
  case $old_libraries in =?*) append_unless is_of_a_toolkit "${old_libraries#=}" ;; esac
  new_libraries=$list

  print_code GPUPROV_CUDA_VERSION "=$1"
  print_code GPUPROV_CUDA_ROOT "=$wanted"
  print_code GPUPROV_CUDA_OLD_PATH "=$old_path"
  print_code GPUPROV_CUDA_OLD_LD_LIBRARY_PATH "=$old_libraries"
  print_code GPUPROV_CUDA_OLD_CUDA_HOME "=$old_home"
  print_code GPUPROV_CUDA_OLD_CUDA_PATH "=$old_cuda_path"
  print_code GPUPROV_CUDA_SET_PATH "==$new_path"
  print_code GPUPROV_CUDA_SET_LD_LIBRARY_PATH "==$new_libraries"
  print_code PATH "=$new_path"
  print_code LD_LIBRARY_PATH "=$new_libraries"
  print_code CUDA_HOME "=$wanted"
  print_code CUDA_PATH "=$wanted"
}

# cuda-run X.Y|none [--] COMMAND [ARGUMENT...]: become the command, with the toolkit in use.
# No variable is set here by a name that the command might know.
gpuprov_cuda_run() {
  case $#:${2-} in
  0: | 1: | 2:--) refuse 'name a toolkit and a command, as in cuda-run X.Y -- nvcc --version' >/dev/null ;;
  esac
  eval "$(gpuprov_cuda_env "$1")" || exit 1
  shift
  [ "$1" != -- ] || shift
  exec "$@"
}

# cuda-list: print the toolkits, one a line, with a star before the one in use.
gpuprov_cuda_list() {
  if [ $# != 0 ]; then
    echo 'cuda-switch: cuda-list takes no argument' >&2
    exit 1
  fi
  list_versions
  [ -n "$versions" ] || printf 'cuda-switch: no CUDA toolkit in %s\n' "$gpuprov_cuda_toolkits" >&2
  for version in $versions; do
    mark=' '
    [ "${GPUPROV_CUDA_ROOT-}" != "$gpuprov_cuda_toolkits/cuda-$version" ] || mark='*'
    printf '%s %-5s %s\n' "$mark" "$version" "$gpuprov_cuda_toolkits/cuda-$version"
  done
}

# cuda-use, where a shell has not read the function of that name: a command cannot change the shell it runs in.
gpuprov_cuda_use() {
  case ${1-} in
  '' | *[!a-z0-9.]*) set -- X.Y ;;
  esac
  # shellcheck disable=SC2016  # what the user is to type
  printf 'cuda-switch: cuda-use is for login and interactive shells; here, type  eval "$(cuda-env %s)"\n' "$1" >&2
  exit 1
}

# --- which toolkits there are ---

refuse() { # what is wrong
  list_versions
  there="there is none in $gpuprov_cuda_toolkits"
  if [ -n "$versions" ]; then
    there='there are'
    for version in $versions; do there="$there $version,"; done
    there=${there%,}
  fi
  printf 'cuda-switch: %s; %s\n' "$1" "$there" >&2
  # The status of a command substitution is lost to eval, so the code itself fails.
  echo 'false;'
  exit 1
}

# Sets versions, blanks between them, the lowest first.
list_versions() {
  versions=''
  for folder in "$gpuprov_cuda_toolkits"/cuda-[0-9].* "$gpuprov_cuda_toolkits"/cuda-[0-9][0-9].*; do
    if is_there "${folder##*/cuda-}"; then versions="$versions ${folder##*/cuda-}"; fi
  done
}

is_there() { # X.Y
  case $1 in
  *[!0-9.]* | .* | *. | *.*.*) return 1 ;;
  *.*) [ -d "$gpuprov_cuda_toolkits/cuda-$1/bin" ] || [ -d "$gpuprov_cuda_toolkits/cuda-$1/lib64" ] ;;
  *) return 1 ;;
  esac
}

# Sets root: the toolkit that CUDA_HOME or CUDA_PATH names, or nothing. They may name /usr or a conda
# environment too, and without the bin of those a shell would be of little use.
root_of() { # state
  root=''
  simplify "${1#[=-]}"
  case $simple in
  */.. | */../* | / | /usr | /usr/local) return 0 ;;
  /*) ;;
  *) return 0 ;;
  esac
  [ ! -e "$simple/conda-meta" ] && [ ! -e "$simple/pyvenv.cfg" ] || return 0
  case ${simple##*/} in
  cuda* | CUDA*) root=$simple ;;
  *) [ ! -e "$simple/version.json" ] && [ ! -e "$simple/version.txt" ] || root=$simple ;;
  esac
}

is_of_a_toolkit() { # entry
  simplify "$1"
  case $simple in
  # Where ".." leads the text does not tell. The linker takes ";" for a colon: then not all of it is a toolkit's.
  */.. | */../* | *\;*) return 1 ;;
  /usr/local/cuda* | "$gpuprov_cuda_toolkits"/cuda | "$gpuprov_cuda_toolkits"/cuda[/-]*) return 0 ;;
  esac
  is_under "$home_root" || is_under "$cuda_path_root"
}

is_under() { # folder, or nothing; simple is looked at
  [ -n "$1" ] || return 1
  case $simple in
  "$1" | "$1"/*) return 0 ;;
  *) return 1 ;;
  esac
}

# Sets simple: the path without doubled slashes, "/./" and a slash at its end.
simplify() {
  simple=$1
  while :; do
    case $simple in
    *//*) simple=${simple%%//*}/${simple#*//} ;;
    */./*) simple=${simple%%/./*}/${simple#*/./} ;;
    *?/.) simple=${simple%/.} ;;
    *?/) simple=${simple%/} ;;
    *) return 0 ;;
    esac
  done
}

# --- what a variable was ---

# Sets state: the variable's without any toolkit of ours in use.
original() { # NAME
  made=''
  eval "state=\${$1+=}\${$1-} old=\${GPUPROV_CUDA_OLD_$1-} made=\${GPUPROV_CUDA_SET_$1-}"
  [ -n "$state" ] || state=-
  [ -n "${GPUPROV_CUDA_ROOT-}" ] && [ -n "$old" ] || return 0
  case $1 in
  CUDA_*) [ "$state" != "=$GPUPROV_CUDA_ROOT" ] || state=$old ;;
  *)
    if [ "$state" = "$made" ]; then
      state=$old
    elif has_ours "$state"; then
      undo_within
    fi
    ;;
  esac
}

# Whether a list that others changed after us still holds what we put in. When it does not, somebody made the
# variable anew, as /etc/profile does in a login shell within a shell, and there is nothing to undo.
has_ours() { # state
  case :${1#[=-]}: in
  *":$GPUPROV_CUDA_ROOT/bin:"* | *":$GPUPROV_CUDA_ROOT/lib64:"*) return 0 ;;
  *) return 1 ;;
  esac
}

is_ours() { # entry
  case $1 in
  "$GPUPROV_CUDA_ROOT/bin" | "$GPUPROV_CUDA_ROOT/lib64" | "$GPUPROV_CUDA_ROOT/extras/CUPTI/lib64") return 0 ;;
  *) return 1 ;;
  esac
}

# Sets state, a list that others changed after us, to what it would be had we not been there before them.
undo_within() { # state, old and made are looked at
  now=${state#=}
  was=${old#[=-]} ours=${made#=}
  list='' colon=''
  case :$now: in
  *":$ours:"*)
    # Entries were put before or after, as PATH=/mine:$PATH does: the old string goes where ours is.
    rest=:$now:
    before=${rest%%":$ours:"*} after=${rest#*":$ours:"}
    [ -z "$before" ] || append_unless is_ours "${before#:}"
    [ -z "$was" ] || append "$was"
    [ -z "$after" ] || append_unless is_ours "${after%:}"
    ;;
  *) merge ;;
  esac
  if [ -n "$colon" ]; then state="=$list"; elif [ "$old" != - ]; then state='='; else state=-; fi
}

# Appends the entries of now without ours, and puts those of was that we took off before the entry that they
# stood before; when that is gone, before the next of was that is not.
merge() {
  left=$was${was:+:}
  rest=$now:
  while [ -n "$rest" ]; do
    entry=${rest%%:*}
    rest=${rest#*:}
    if is_ours "$entry"; then continue; fi
    case :$left in
    *":$entry:"*)
      while [ "${left%%:*}" != "$entry" ]; do put_back_next; done
      left=${left#*:}
      ;;
    esac
    append "$entry"
  done
  while [ -n "$left" ]; do put_back_next; done
}

put_back_next() { # the first of left goes
  if is_taken "${left%%:*}"; then append "${left%%:*}"; fi
  left=${left#*:}
}

is_taken() { # entry of was
  if is_ours "$1"; then return 0; fi
  case :$ours: in
  *":$1:"*) return 1 ;;
  *) return 0 ;;
  esac
}

# --- lists and code ---

# Lists are built in list; colon is empty as long as it has no entry.
append() { # entry, or list
  list=$list$colon$1
  colon=:
}

append_unless() { # test of an entry, list
  rest=$2:
  while [ -n "$rest" ]; do
    entry=${rest%%:*}
    rest=${rest#*:}
    if ! "$1" "$entry"; then append "$entry"; fi
  done
}

# Prints the code that gives a variable a state: for every shell, whatever its options, and on one line as well.
print_code() { # NAME, state
  case $2 in
  =*) ;;
  *)
    printf 'unset -v %s;\n' "$1"
    return 0
    ;;
  esac
  rest=${2#=} quoted=''
  while :; do
    case $rest in
    *\'*)
      quoted="$quoted${rest%%\'*}'\\''"
      rest=${rest#*\'}
      ;;
    *) break ;;
    esac
  done
  printf "export %s='%s';\n" "$1" "$quoted$rest"
}
