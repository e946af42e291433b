#!/bin/sh
# The clean surroundings in which a wheel is built, installed and tried, and what its environment must have.
# Text before it: job_head.sh.
# In:  gp_prefix   the environment              gp_name, gp_version, gp_module   the project, and what is imported
#      gp_torch    torch's version and build, as 1.13.1+cu117
#      gp_tag      Python's X.Y                 gp_abi      torch's C++ ABI: True or False
#      gp_build_known   known failures, a line each: a text, a tab, the cause
# Out: gp_py, gp_pip; an environment without whatever leads Python, pip, compilers or the linker elsewhere.
# shellcheck disable=SC2154  # the variables are set by what precedes
gp_py=$gp_prefix/bin/python

# gp_without LIST: a search path without the entries of any CUDA toolkit. The driver's mount is not called cuda.
gp_without() {
  gp_rest=$1: gp_out=''
  while [ -n "$gp_rest" ]; do
    gp_entry=${gp_rest%%:*}
    gp_rest=${gp_rest#*:}
    case $gp_entry/ in / | */cuda/* | */cuda-[0-9]*) continue ;; esac
    gp_out=$gp_out${gp_out:+:}$gp_entry
  done
}

# Where the host's pip finds packages stays; where it would put them, or which it would refuse, does not.
for gp_v in $(env | sed -n 's/^\(PIP_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(PYTHON[A-Za-z0-9_]*\)=.*/\1/p'); do
  case $gp_v in
  PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_FIND_LINKS | PIP_NO_INDEX | PIP_TRUSTED_HOST | PIP_CERT | PIP_CLIENT_CERT) ;;
  PIP_PROXY | PIP_CONFIG_FILE | PIP_TIMEOUT | PIP_DEFAULT_TIMEOUT | PIP_RETRIES | PIP_KEYRING_PROVIDER) ;;
  *) unset "$gp_v" ;;
  esac
done
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDSHARED CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH \
  NVCC_APPEND_FLAGS NVCC_PREPEND_FLAGS CUDAHOSTCXX CUDA_HOME CUDA_PATH CUDA_ROOT CC CXX TORCH_CUDA_ARCH_LIST \
  FLASH_ATTN_LOCAL_VERSION LD_PRELOAD || :
gp_without "${LD_LIBRARY_PATH:-}"
if [ -n "$gp_out" ]; then LD_LIBRARY_PATH=$gp_out && export LD_LIBRARY_PATH; else unset LD_LIBRARY_PATH || :; fi
gp_without "${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
PATH=$gp_prefix/bin:$gp_out
PYTHONNOUSERSITE=1 PYTHONUNBUFFERED=1 TMPDIR=$gp_work/tmp
export PATH PYTHONNOUSERSITE PYTHONUNBUFFERED TMPDIR
mkdir -p "$TMPDIR"

# Nothing from configuration, nothing from an index, nothing from caches.
gp_pip() { # command, arguments
  PIP_CONFIG_FILE=/dev/null "$gp_py" -I -m pip "$@" --isolated --disable-pip-version-check --no-input --no-cache-dir
}

# gp_explain FILE KNOWN: the cause that a text tells, if it is one of the known ones (a text, a tab, the cause a line).
gp_explain() {
  gp_tab=$(printf '\t')
  printf '%s\n' "$2" >"$gp_work/known"
  while IFS=$gp_tab read -r gp_text gp_cause; do
    [ -n "$gp_text" ] || continue
    grep -qF -e "$gp_text" "$1" || continue
    gp_speak "known cause: $gp_cause"
    break
  done <"$gp_work/known"
}

# gp_check_env MODULE...: the environment is what the wheel is made for; these modules, which a build imports, are there.
gp_check_env() {
  [ -x "$gp_py" ] || gp_stop 12 "there is no environment with a Python at $gp_prefix"
  "$gp_py" -I - "$@" >"$gp_work/env" 2>"$gp_work/env.err" <<'PY' || gp_stop 12 "the Python of $gp_prefix does not run: $(tail -n 1 "$gp_work/env.err")"
import importlib, sys
def why(name):
    try:
        importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ImportError) and error.name == name:
            return "is missing"
        return "cannot be imported: " + " ".join(("%s: %s" % (type(error).__name__, error)).split())
print("python %d.%d" % sys.version_info[:2])
# Once torch has imported distutils, or pip was imported, setuptools refuses to be.
own, others = ("torch", "pip"), sys.argv[1:]
for name in sorted(others, key=lambda name: name.split(".")[0] in own) + list(own):
    trouble = why(name)
    if trouble:
        print("lacks %s %s" % (name, trouble))
        sys.exit()
import torch
cuda = torch.version.cuda or ""
build = torch.__version__
if "+" not in build:
    build += "+cu" + cuda.replace(".", "") if cuda else "+cpu"
print("torch " + build)
print("abi %s" % bool(torch._C._GLIBCXX_USE_CXX11_ABI))
PY
  # shellcheck disable=SC2094  # it is only read
  while read -r gp_word gp_rest; do
    case $gp_word in
    python) [ "$gp_rest" = "$gp_tag" ] || gp_stop 12 "$gp_prefix has Python $gp_rest, and the wheel is for Python $gp_tag" ;;
    lacks)
      gp_explain "$gp_work/env" "$gp_build_known"
      gp_stop 12 "${gp_rest%% *} of $gp_prefix, which $gp_name is built with, ${gp_rest#* }"
      ;;
    torch) [ "$gp_rest" = "$gp_torch" ] || gp_stop 12 "the torch of $gp_prefix is $gp_rest, and $gp_name is to be for $gp_torch" ;;
    abi) [ "$gp_rest" = "$gp_abi" ] || gp_stop 12 "the torch of $gp_prefix has _GLIBCXX_USE_CXX11_ABI=$gp_rest, and $gp_name is to be for $gp_abi: set cxx11_abi" ;;
    esac
  done <"$gp_work/env"
}
