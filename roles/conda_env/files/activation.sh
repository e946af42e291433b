# shellcheck shell=sh
# Activation of an environment, by the means of cuda-switch.sh, whose text stands before this: lists, and undoing what was
# put into them although others changed them meanwhile. Read by /bin/sh in a process of its own, without any command;
# prints code for the shell that activates.
#
# Besides what that library says of its variables:
#   GPUPROV_ENV_DEPTH              how many activations are in force: conda can stack environments
#   GPUPROV_ENV_<N>_PREFIX, _ROOT  the environment of the Nth, and its toolkit
#   GPUPROV_ENV_<N>_OLD_<NAME>     what a variable was before it, and what it made of it (_SET_<NAME>)
#   GPUPROV_ENV_<N>_CUDA_<NAME>    what cuda-use had left, which is out of force meanwhile
#   GPUPROV_ENV_LEFT_<NAME>        see step_aside
# gpuprov_env_prefix and gpuprov_env_toolkit (which may be empty) are set by the file that this is in.
# shellcheck disable=SC2034,SC2154  # read, and set, by what precedes

gpuprov_env() { # activate | deactivate
  LC_ALL=C
  depth=${GPUPROV_ENV_DEPTH-}
  case $depth in
  '' | *[!0-9]* | ????*) depth=0 ;;
  esac
  top=$depth
  remember
  case $1 in
  activate) env_activate ;;
  deactivate) env_deactivate ;;
  esac
  print_changes
}

variables='PATH LD_LIBRARY_PATH CUDA_HOME CUDA_PATH PYTHONNOUSERSITE'
switched='VERSION ROOT OLD_PATH OLD_LD_LIBRARY_PATH OLD_CUDA_HOME OLD_CUDA_PATH SET_PATH SET_LD_LIBRARY_PATH'

env_activate() {
  if is_on_top; then undo_level; fi
  undo_left
  depth=$((depth + 1))
  level=GPUPROV_ENV_${depth}
  put "${level}_PREFIX" "=$gpuprov_env_prefix"
  for name in $variables; do
    get "$name"
    put "${level}_OLD_$name" "=$state"
  done
  for name in $switched; do
    get "GPUPROV_CUDA_$name"
    put "${level}_CUDA_$name" "=$state"
    put "GPUPROV_CUDA_$name" -
  done
  put "${level}_ROOT" =
  if [ -n "$gpuprov_env_toolkit" ]; then
    if [ -d "$gpuprov_env_toolkit/bin" ]; then
      put "${level}_ROOT" "=$gpuprov_env_toolkit"
      use_toolkit
    else
      printf 'gpuprov: there is no CUDA toolkit at %s; the environment is activated without\n' "$gpuprov_env_toolkit" >&2
    fi
  fi
  put PYTHONNOUSERSITE =1
  put GPUPROV_ENV_DEPTH "=$depth"
}

use_toolkit() {
  get CUDA_HOME
  root_of "$state"
  home_root=$root
  get CUDA_PATH
  root_of "$state"
  cuda_path_root=$root

  list='' colon=''
  append "$gpuprov_env_toolkit/bin"
  get PATH
  case $state in =*) append_unless is_of_a_toolkit "${state#=}" ;; esac
  put PATH "=$list"
  put "${level}_SET_PATH" "==$list"

  # The libraries of Python packages are their own: a toolkit's, found first, would take their place.
  list='' colon=''
  get LD_LIBRARY_PATH
  case $state in =?*) append_unless is_of_a_toolkit "${state#=}" ;; esac
  if [ -n "$colon" ]; then state="=$list"; else state=-; fi
  put LD_LIBRARY_PATH "$state"
  put "${level}_SET_LD_LIBRARY_PATH" "=$state"

  put CUDA_HOME "=$gpuprov_env_toolkit"
  put CUDA_PATH "=$gpuprov_env_toolkit"
}

env_deactivate() {
  # Not on top: something else was activated since, and comes off first.
  is_on_top || return 0
  get PATH
  before=:${state#[=-]}:
  level=GPUPROV_ENV_${depth}
  step_aside
  undo_level
}

is_on_top() {
  [ "$depth" -gt 0 ] || return 1
  get "GPUPROV_ENV_${depth}_PREFIX"
  [ "$state" = "=$gpuprov_env_prefix" ]
}

# conda works PATH out before it runs a script. When it leaves an environment for good it sets PATH first, and what a
# script then does to it counts. When it goes from one environment to the next, or activates one again, it sets PATH after
# the scripts of the old one, so that our entry comes back; the environment's own bin, still there, tells. Then what is
# needed to undo it is left for the next activation.
step_aside() {
  case $before in *":$gpuprov_env_prefix/bin:"*) ;; *) return 0 ;; esac
  get "${level}_ROOT"
  [ "$state" != = ] || return 0
  put GPUPROV_ENV_LEFT_ROOT "$state"
  for name in OLD_PATH SET_PATH; do
    get "${level}_$name"
    put "GPUPROV_ENV_LEFT_$name" "$state"
  done
}

undo_left() {
  get GPUPROV_ENV_LEFT_ROOT
  if [ "$state" != - ]; then
    for name in ROOT OLD_PATH SET_PATH; do
      get "GPUPROV_CUDA_$name"
      put "kept_$name" "=$state"
      get "GPUPROV_ENV_LEFT_$name"
      put "GPUPROV_CUDA_$name" "$state"
      put "GPUPROV_ENV_LEFT_$name" -
    done
    original PATH
    put PATH "$state"
    for name in ROOT OLD_PATH SET_PATH; do
      get "kept_$name"
      put "GPUPROV_CUDA_$name" "${state#=}"
    done
  fi
}

# Undo the topmost activation.
undo_level() {
  level=GPUPROV_ENV_${depth}
  if [ -n "${GPUPROV_CUDA_ROOT-}" ]; then
    # cuda-use was called within: that comes off first.
    for name in PATH LD_LIBRARY_PATH CUDA_HOME CUDA_PATH; do
      original "$name"
      put "$name" "$state"
    done
    for name in $switched; do put "GPUPROV_CUDA_$name" -; done
  fi
  get "${level}_ROOT"
  GPUPROV_CUDA_ROOT=${state#[=-]}
  if [ -n "$GPUPROV_CUDA_ROOT" ]; then
    for name in PATH LD_LIBRARY_PATH CUDA_HOME CUDA_PATH; do
      get "${level}_OLD_$name"
      put "GPUPROV_CUDA_OLD_$name" "$state"
      get "${level}_SET_$name"
      put "GPUPROV_CUDA_SET_$name" "$state"
      if [ "$name" = LD_LIBRARY_PATH ]; then original_libraries; else original "$name"; fi
      put "$name" "$state"
      put "GPUPROV_CUDA_OLD_$name" -
      put "GPUPROV_CUDA_SET_$name" -
    done
  fi
  get PYTHONNOUSERSITE
  if [ "$state" = =1 ]; then
    get "${level}_OLD_PYTHONNOUSERSITE"
    put PYTHONNOUSERSITE "${state#=}"
  fi
  for name in $switched; do
    get "${level}_CUDA_$name"
    put "GPUPROV_CUDA_$name" "${state#=}"
  done
  forget_level
}

# Nothing of ours is in that list, only taken out of it: the library would see nothing to undo.
original_libraries() {
  old=${GPUPROV_CUDA_OLD_LD_LIBRARY_PATH-} made=${GPUPROV_CUDA_SET_LD_LIBRARY_PATH-}
  get LD_LIBRARY_PATH
  if [ "$state" = "$made" ]; then
    state=$old
  elif [ "$old" != "$made" ]; then
    undo_within
  fi
}

forget_level() {
  for name in PREFIX ROOT; do put "${level}_$name" -; done
  for name in $variables; do
    put "${level}_OLD_$name" -
    put "${level}_SET_$name" -
  done
  for name in $switched; do put "${level}_CUDA_$name" -; done
  depth=$((depth - 1))
  if [ "$depth" -gt 0 ]; then put GPUPROV_ENV_DEPTH "=$depth"; else put GPUPROV_ENV_DEPTH -; fi
}

# --- variables of this process stand for those of the shell ---

# Sets state: "-" for unset, else "=" and the value.
get() { # NAME
  eval "state=\${$1+=}\${$1-}"
  [ -n "$state" ] || state=-
}

put() { # NAME, state
  case $2 in
  =*) eval "$1=\${2#=}" ;;
  *) unset -v "$1" ;;
  esac
}

# Sets names: all variables that may change.
all_names() {
  names="$variables GPUPROV_ENV_DEPTH GPUPROV_ENV_LEFT_ROOT GPUPROV_ENV_LEFT_OLD_PATH GPUPROV_ENV_LEFT_SET_PATH"
  for name in $switched; do names="$names GPUPROV_CUDA_$name"; done
  for at in "$top" $((top + 1)); do
    names="$names GPUPROV_ENV_${at}_PREFIX GPUPROV_ENV_${at}_ROOT"
    for name in $variables; do names="$names GPUPROV_ENV_${at}_OLD_$name GPUPROV_ENV_${at}_SET_$name"; done
    for name in $switched; do names="$names GPUPROV_ENV_${at}_CUDA_$name"; done
  done
}

remember() {
  all_names
  for one in $names; do
    get "$one"
    put "was_$one" "=$state"
  done
}

print_changes() {
  all_names
  for one in $names; do
    get "was_$one"
    was=${state#=}
    get "$one"
    [ "$state" = "$was" ] || print_code "$one" "$state"
  done
}
