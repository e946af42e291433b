#!/bin/sh
# Install, repair and remove the Python packages of one conda environment in one run of its own pip.
# Text before it: job_head.sh.
#
# In:  gp_path    the environment
#      gp_wanted  NAME==VERSION, one a line, without sums
#      gp_hashed  those of them that have sums, with them: NAME==VERSION --hash=sha256:...
#      gp_repair  those, as in gp_hashed or gp_wanted, of which what is there must go first
#      gp_gone    names to be removed
#      gp_index, gp_extra   the index to use instead of the host's own, and one to use beside it; or empty
#      gp_cache   folder for what pip downloads and builds
#      gp_globs   a function: gp_globs NAME COMMAND... calls the command with the paths of all copies of a package
# Out: progress, then what pip says; what `pip check` finds as lines "warning: ...".
# Ends with 0 done; 1 pip failed; 10 there is no environment; 11 its Python belongs to another place; 12 it has no pip;
#      13 pip is configured to install elsewhere
# The host's pip configuration holds for mirrors, proxies and certificates.
# shellcheck disable=SC2154  # the variables are set by what precedes
gp_py=$gp_path/bin/python

# What would lead Python or pip to another place, or to other packages than those asked for.
# shellcheck disable=SC2046  # names of variables
unset -v PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER PIP_PYTHON PIP_REQUIRE_VIRTUALENV PIP_BREAK_SYSTEM_PACKAGES \
  PIP_NO_DEPS PIP_IGNORE_INSTALLED PIP_FORCE_REINSTALL PIP_UPGRADE PIP_UPGRADE_STRATEGY PIP_REQUIREMENT PIP_EDITABLE \
  PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_DRY_RUN PIP_REPORT PIP_PLATFORM PIP_PYTHON_VERSION PIP_IMPLEMENTATION PIP_ABI \
  PIP_NO_BINARY PIP_ONLY_BINARY PIP_PRE PIP_PREFER_BINARY PIP_CONFIG_SETTINGS PIP_GLOBAL_OPTION \
  PIP_SRC PIP_REQUIRE_HASHES PIP_NO_CACHE_DIR PIP_DEST PIP_QUIET PIP_VERBOSE PIP_LOG __PYVENV_LAUNCHER__ VIRTUAL_ENV \
  $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\)=.*/\1/p')
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_CACHE_DIR="$gp_cache/pip"

# Whatever was put into the environment since: nothing is installed into another place than the one that was judged.
[ -x "$gp_py" ] || gp_stop 10 "there is no Python in $gp_path"
gp_s=$("$gp_py" -I -c 'import importlib.util as i, sys, sysconfig
print(sys.prefix); print(sysconfig.get_path("purelib")); print(i.find_spec("pip") and "pip")') ||
  gp_stop 10 "the Python in $gp_path does not run"
gp_prefix=${gp_s%%"
"*} gp_site=${gp_s#*"
"}
gp_has_pip=${gp_site#*"
"} gp_site=${gp_site%%"
"*}
# shellcheck disable=SC3013  # dash, bash and busybox all know -ef
[ "$gp_prefix" -ef "$gp_path" ] || gp_stop 11 "refused: $gp_py belongs to $gp_prefix, and not to $gp_path"
case $gp_site in
"$gp_prefix"/*) ;;
*) gp_stop 11 "refused: $gp_py installs to $gp_site, which is not in $gp_path" ;;
esac
[ "$gp_has_pip" = pip ] || gp_stop 12 "there is no pip in $gp_path"

# -I: neither the user's packages nor the working directory count; -u: lines come when they are said.
gp_pip() { "$gp_py" -I -u -m pip --no-input --disable-pip-version-check "$@" </dev/null 2>&1; }

# A pip that is configured to work for another Python would list that one's configuration.
PIP_PYTHON=$gp_py gp_pip config list >"$gp_work/config" || : >"$gp_work/config"
while IFS= read -r gp_s; do
  case $gp_s in
  :env:* | *.user=*[fF]alse* | *.user=*0* | *.user=*no* | *.user=*off*) ;;
  global.target=* | global.prefix=* | global.root=* | global.user=* | global.python=* | install.target=* | \
    install.prefix=* | install.root=* | install.user=*)
    gp_stop 13 "refused: pip is configured on this host to install elsewhere: $gp_s" \
      "the file it stands in is named by: $gp_py -m pip config debug"
    ;;
  esac
done <"$gp_work/config"

# Of the configuration only what says where packages come from counts; what would choose others (constraint, no-binary,
# requirement, dry-run …) does not. A variable outranks it, as it does with pip.
"$gp_py" -I - "$gp_work/config" >"$gp_work/pip.sh" <<'GP_PYTHON'
import ast, os, shlex, sys

kept = """index-url extra-index-url find-links no-index trusted-host cert client-cert proxy timeout default-timeout retries
keyring-provider""".split()
found = {}
with open(sys.argv[1], errors="surrogateescape") as lines:
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        section, _, name = key.partition(".")
        if section not in ("global", "install") or name not in kept:
            continue
        try:
            text = str(ast.literal_eval(value))
        except (SyntaxError, ValueError):
            text = value
        if section == "install" or name not in found:
            found[name] = " ".join(text.split()) if name.endswith(("-index-url", "-links", "-host")) else text
for name, text in found.items():
    variable = "PIP_" + name.upper().replace("-", "_")
    if variable not in os.environ:
        print("export %s=%s" % (variable, shlex.quote(text)))
GP_PYTHON
# shellcheck source=/dev/null
. "$gp_work/pip.sh"
export PIP_CONFIG_FILE=/dev/null

# Wheels of torch unpack to gigabytes: in the environment there must be room for them anyway, in /tmp there often is not.
TMPDIR=$gp_path/.gpuprov-tmp
export TMPDIR
rm -rf "$TMPDIR"
mkdir "$TMPDIR"
mkdir -p "$PIP_CACHE_DIR"
gp_cleanup() {
  gp_status=$?
  trap '' TERM HUP INT
  rm -rf "$TMPDIR"
  exit "$gp_status"
}
trap gp_cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' HUP INT

gp_lines() { # text; how many lines it has
  gp_count=0
  while IFS= read -r gp_s; do [ -z "$gp_s" ] || gp_count=$((gp_count + 1)); done <<GP_LIST
$1
GP_LIST
}

gp_name() { # requirement; sets gp_s to its name
  gp_s=${1%%==*}
  gp_s=${gp_s%%[*}
}

gp_has_record() {
  for gp_f; do if [ -s "$gp_f/RECORD" ]; then return 0; fi; done
  return 1
}
gp_delete() { for gp_f; do case $gp_f in *.dist-info | *.egg-info | *.egg-link) rm -rf "$gp_f" ;; esac; done; }

# Remove every copy of a package: what has a list of its files by that list, of the rest what names it.
gp_take_out() { # name
  gp_n=0
  while [ $gp_n -lt 5 ] && gp_globs "$1" gp_has_record; do
    gp_n=$((gp_n + 1))
    gp_pip uninstall -y "$1" || break
  done
  gp_globs "$1" gp_delete
}

set -- --progress-bar off
[ -z "$gp_index" ] || set -- "$@" --index-url "$gp_index"
[ -z "$gp_extra" ] || set -- "$@" --extra-index-url "$gp_extra"
printf '%s\n' "$gp_wanted" >"$gp_work/wanted.txt"
printf '%s\n' "$gp_hashed" >"$gp_work/hashed.txt"
printf '%s\n' "$gp_repair" >"$gp_work/repair.txt"

if [ -n "$gp_repair" ]; then
  # First of all it is fetched: what cannot be had is not taken out.
  gp_lines "$gp_repair"
  gp_say "fetching $(gp_number "$gp_count" package) to be put right"
  mkdir "$TMPDIR/fetched"
  while IFS= read -r gp_line; do
    printf '%s\n' "$gp_line" >"$gp_work/one.txt"
    gp_pip download "$@" --no-deps -d "$TMPDIR/fetched" -r "$gp_work/one.txt" ||
      gp_stop 1 "pip could not fetch $gp_line" "nothing was changed"
  done <"$gp_work/repair.txt"
  while IFS= read -r gp_line; do
    gp_name "$gp_line"
    gp_take_out "$gp_s"
  done <"$gp_work/repair.txt"
  set -- "$@" --find-links "$TMPDIR/fetched"
fi

if [ -n "$gp_gone" ]; then
  while IFS= read -r gp_line; do
    gp_say "removing $gp_line"
    gp_take_out "$gp_line"
  done <<GP_LIST
$gp_gone
GP_LIST
fi

gp_lines "$gp_wanted"
gp_all=$gp_count
gp_lines "$gp_hashed"
if [ $gp_all -gt 0 ]; then gp_say "installing $(gp_number $gp_all package) into $gp_path"; fi
if [ "$gp_count" -gt 0 ]; then
  # Sums for all: then what they need must be among them. Sums for some: those are verified, and the rest comes after.
  if [ "$gp_count" -lt $gp_all ]; then gp_deps=--no-deps; else gp_deps=''; fi
  # shellcheck disable=SC2086  # one word or none
  gp_pip install "$@" --require-hashes $gp_deps -r "$gp_work/hashed.txt" ||
    gp_stop 1 "pip install failed"
fi
if [ "$gp_count" -lt $gp_all ]; then
  gp_pip install "$@" -r "$gp_work/wanted.txt" || gp_stop 1 "pip install failed"
fi
gp_pip check >"$gp_work/check" || sed 's/^/warning: /' "$gp_work/check"
gp_say "done"
