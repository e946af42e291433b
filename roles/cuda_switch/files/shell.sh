# shellcheck shell=sh
# cuda-use and cuda-list for the shells that people type in. Reading this runs no command.
# What is to change is worked out by cuda-env, in a process of its own; here it is only carried out.

_gpuprov_cuda_use() { # X.Y, or none
  eval "$(
    # A variable that is set and not exported would not be seen, and be lost by "none".
    if [ -n "${PATH+x}" ]; then export PATH; fi
    if [ -n "${LD_LIBRARY_PATH+x}" ]; then export LD_LIBRARY_PATH; fi
    if [ -n "${CUDA_HOME+x}" ]; then export CUDA_HOME; fi
    if [ -n "${CUDA_PATH+x}" ]; then export CUDA_PATH; fi
    /usr/local/bin/cuda-env "$@" || echo 'false;'
  )"
}

_gpuprov_cuda_list() {
  /usr/local/bin/cuda-list "$@"
}

_gpuprov_cuda_login() { # the toolkit that login shells start with; empty for none
  if [ -n "${GPUPROV_CUDA_VERSION-}" ]; then
    # A login shell within a shell, as in tmux, has what that one chose, but /etc/profile made PATH anew.
    case :${PATH-}: in
    *":${GPUPROV_CUDA_ROOT-}/bin:"*) return 0 ;;
    esac
    set -- "$GPUPROV_CUDA_VERSION"
  fi
  [ -n "${1-}" ] || return 0
  # What a login prints nobody asked for is noise to scp and its like, and it must never end the login.
  case $- in
  *i*) _gpuprov_cuda_use "$1" || : ;;
  *) _gpuprov_cuda_use "$1" 2>/dev/null || : ;;
  esac
}

# A name with "-" can be a function's in bash and zsh, where it then works in scripts that read this as well.
# In dash and busybox it can be an alias's only, and bash in POSIX mode would end at the attempt.
_gpuprov_cuda_names='cuda-use() { _gpuprov_cuda_use "$@"; }; cuda-list() { _gpuprov_cuda_list "$@"; }'
# shellcheck disable=SC3028  # only bash has SHELLOPTS, and it is asked there
case ${BASH_VERSION:+bash}${ZSH_VERSION:+zsh}:${SHELLOPTS-}: in
:* | *:posix:*) false ;;
*) command eval "$_gpuprov_cuda_names" 2>/dev/null ;;
esac || alias cuda-use=_gpuprov_cuda_use cuda-list=_gpuprov_cuda_list
unset -v _gpuprov_cuda_names

# The login shells of sh, dash and bash read that file after all others of its folder. zsh reads none of them.
case ${ZSH_VERSION:+$-} in
*l*)
  # shellcheck disable=SC1091  # a file of the host
  if [ -r /etc/profile.d/zzz-cuda-switch.sh ]; then . /etc/profile.d/zzz-cuda-switch.sh; fi
  ;;
esac
