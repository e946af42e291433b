#!/bin/sh
# Make a conda environment, or put a new one in the place of one that we made.
# Text before it: job_head.sh, manifest_ours.sh, conda_look.sh, conda_place.sh.
# In:  what those read, and
#      gp_inputs    digest of what decides the content
#      gp_force     yes: make it again although it looks right
#      gp_fallback  a micromamba to use where the host has no tool, or empty
#      gp_cache     folder for downloaded packages
#      gp_python    its version, X.Y or X.Y.Z
#      gp_specs, gp_channels, gp_explicit   one a line; explicit lines are URLs with their sums
#      gp_id        of the resource, as text of JSON
# Out: progress; the last act is the rename of PATH/manifest.json.
# Ends with 0 done, or nothing was left to do; 1 the tool failed; 10 something that is not ours stands at the path;
#      11 it is a conda base; 12 no tool; 13 terms of service; 14 a package is not to be had; 15 it cannot be written;
#      16 what was made is not what was asked for
# No terms are accepted for anybody, no configuration file is written, no shell is initialised.
# shellcheck disable=SC2154  # the variables are set by what precedes

# What is set for another Python or another environment must not reach conda, which is a Python program itself.
# CI: conda takes it for consent to terms of service.
# shellcheck disable=SC2046  # names of variables
unset -v CI CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_SHLVL CONDA_ENVS_PATH CONDA_ENVS_DIRS CONDA_DRY_RUN CONDA_DOWNLOAD_ONLY \
  CONDA_CHANNELS CONDA_CREATE_DEFAULT_PACKAGES CONDA_PINNED_PACKAGES CONDA_JSON MAMBA_TARGET_PREFIX LD_LIBRARY_PATH \
  $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\)=.*/\1/p')
export PYTHONNOUSERSITE=1 CONDA_PKGS_DIRS="$gp_cache/conda-pkgs"

gp_s=$(mkdir -p "$gp_parent" 2>&1) || gp_stop 15 "$gp_parent cannot be made: $gp_s" \
  "give the environment another prefix, or paths.envs in the inventory"
[ -w "$gp_parent" ] || gp_stop 15 "no permission to write in $gp_parent" \
  "give the environment another prefix, or paths.envs in the inventory"
gp_tidy

gp_conda_state
case $gp_state in
absent) ;;
empty) rmdir "$gp_path" ;;
base) gp_stop 11 "$gp_path is a conda base, and is left alone" ;;
ours)
  gp_is_ours || gp_stop 10 "gpuprov made $gp_path as something else, and it is left alone"
  gp_conda_ours >"$gp_work/look"
  if [ "$gp_force" != yes ] && ! grep -q '^damage ' "$gp_work/look" &&
    grep -qxF -e "head \"inputs\": \"$gp_inputs\"," "$gp_work/look"; then
    gp_say "nothing to do: $gp_path is as wanted"
    exit 0
  fi
  ;;
*) gp_stop 10 "$gp_path is something that gpuprov did not make, and is left alone; choose another path" ;;
esac

gp_conda_tool
gp_root=''
if [ -z "$gp_found" ] && [ -n "$gp_fallback" ] && [ -f "$gp_fallback" ]; then
  [ -x "$gp_fallback" ] || chmod 755 "$gp_fallback"
  gp_found=$gp_fallback gp_root=$gp_cache/micromamba
fi
[ -n "$gp_found" ] || gp_stop 12 "no ${gp_tool:-micromamba, mamba or conda} on this host"
gp_said=$("$gp_found" --version 2>&1 </dev/null | head -n 3) || :
case $gp_said in
*conda\ [0-9]*) gp_speaks=conda ;;
[0-9]*) gp_speaks=micromamba ;;
*) gp_stop 12 "$gp_found does not work: $gp_said" ;;
esac
gp_version=$(printf '%s' "$gp_said" | tr '\n' ' ')
gp_home=$(readlink -f "$gp_found") || gp_home=$gp_found
gp_home=${gp_home%/*/*}
# shellcheck disable=SC3013  # dash, bash and busybox all know -ef
if [ "$gp_path" = "$gp_home" ] || [ "$gp_path" -ef "$gp_home" ]; then
  gp_stop 11 "$gp_path is where $gp_found comes from, and is left alone"
fi

set -- create -y -p "$gp_path"
[ "$gp_speaks" = micromamba ] || set -- "$@" --no-default-packages
[ -z "$gp_root" ] || set -- "$@" -r "$gp_root"
if [ -n "$gp_channels" ]; then
  set -- "$@" --override-channels
  while IFS= read -r gp_s; do set -- "$@" -c "$gp_s"; done <<GP_LIST
$gp_channels
GP_LIST
fi
if [ -n "$gp_explicit" ]; then
  printf '@EXPLICIT\n%s\n' "$gp_explicit" >"$gp_work/explicit.txt"
  set -- "$@" --file "$gp_work/explicit.txt"
else
  while IFS= read -r gp_s; do set -- "$@" "$gp_s"; done <<GP_LIST
$gp_specs
GP_LIST
fi

trap gp_cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' HUP INT
gp_s=$({ printf '%s\n' "$gp_path" >"$gp_mark"; } 2>&1) || gp_stop 15 "$gp_parent cannot be written: $gp_s"
if [ "$gp_state" = ours ]; then
  rm -rf "$gp_old"
  mv "$gp_path" "$gp_old"
  gp_say "moved the former $gp_path aside"
fi
# From here on what appears at the path is this attempt's. Which folder that is goes into the mark as soon as it is there,
# for whoever finds the mark when this attempt was cut off.
# shellcheck disable=SC2034  # read by gp_tidy
gp_attempt=ours
(
  trap - EXIT TERM HUP INT
  while [ ! -d "$gp_path" ]; do
    # A job that died without a word has no claim to what somebody makes here later
    if [ -e "$gp_work/over" ] || ! kill -0 $$ 2>/dev/null; then exit 0; fi
    sleep 0.1
  done
  printf '%s\n%s\n' "$gp_path" "$(stat -c %i:%W "$gp_path")" >"$gp_mark.new" && mv "$gp_mark.new" "$gp_mark"
) &
# shellcheck disable=SC2034  # read by gp_cleanup
gp_watch=$!
mkdir -p "$CONDA_PKGS_DIRS"
gp_say "making $gp_path with $gp_found ($gp_version)"
{
  gp_rc=0
  "$gp_found" "$@" </dev/null 2>&1 || gp_rc=$?
  echo "$gp_rc" >"$gp_work/rc"
} | tee "$gp_work/said"
read -r gp_rc <"$gp_work/rc"
if [ "$gp_rc" != 0 ]; then
  if grep -qi -e 'terms of service' -e CondaToS "$gp_work/said"; then
    gp_stop 13 "a channel wants its terms of service to be accepted, and gpuprov accepts none for anybody" \
      "name other channels (such as channels: [conda-forge]), or accept them yourself on the host: conda tos accept"
  elif grep -q -e PackagesNotFoundError -e ResolvePackageNotFound -e UnsatisfiableError -e 'nothing provides' \
    -e 'does not exist' -e 'Could not solve' "$gp_work/said"; then
    gp_stop 14 "what was asked for is not to be had from these channels, or does not fit together"
  elif grep -q -e NotWritableError -e 'Permission denied' "$gp_work/said"; then
    gp_stop 15 "$gp_found may not write: $(grep -e NotWritableError -e 'Permission denied' "$gp_work/said" | tail -n 1)" \
      "give the environment another prefix, or paths.envs in the inventory"
  fi
  # Of a report that is longer than what is kept of it
  gp_s=$(grep -e 'No space left on device' -e NoSpaceLeft "$gp_work/said" | tail -n 1) || :
  gp_stop 1 "$gp_found create ended with status $gp_rc${gp_s:+: $gp_s}"
fi

gp_py=$gp_path/bin/python
[ -x "$gp_py" ] || gp_stop 16 "$gp_found ended well, and yet there is no $gp_py"
gp_s=$("$gp_py" -I -c 'import sys; print("%d.%d.%d" % sys.version_info[:3]); print(sys.prefix)') ||
  gp_stop 16 "the Python that was put into $gp_path does not run"
gp_version_made=${gp_s%%"
"*}
gp_s=${gp_s#*"
"}
# shellcheck disable=SC3013
[ "$gp_s" -ef "$gp_path" ] || gp_stop 16 "the Python in $gp_path works in another place: $gp_s"
case $gp_version_made. in
"$gp_python".*) ;;
*) gp_stop 16 "Python $gp_version_made was put into $gp_path, and $gp_python is wanted" ;;
esac

gp_say "writing the manifest"
"$gp_py" -I - "$gp_path" "$gp_id" "$gp_inputs" "python $gp_version_made" "$gp_version" <<'GP_PYTHON'
import glob, hashlib, io, json, os, sys, time

path, id_, inputs, release, tool = sys.argv[1:]
explicit, records = [], []
for name in sorted(glob.glob(os.path.join(glob.escape(path), "conda-meta", "*.json"))):
    with io.open(name, encoding="utf-8") as stream:
        record = json.load(stream)
    records.append(os.path.basename(name)[:-5])
    if record.get("url"):
        total = "sha256:" + record["sha256"] if record.get("sha256") else record.get("md5") or ""
        explicit.append(record["url"] + ("#" + total if total else ""))
if not records:
    sys.exit("there are no records in %s/conda-meta" % path)


def lines(items):
    return "[\n" + ",\n".join(map(json.dumps, items)) + "\n]"


listing = hashlib.sha256("\n".join(records + explicit).encode()).hexdigest()
head = [("id", id_), ("inputs", inputs), ("release", release), ("listing", listing), ("tool", tool)]
# Its bin/python is often a link, and one that was pointed elsewhere makes another environment of it. What lies inside is
# written down as such: the folder above may be moved and linked.
interpreter, inside = os.path.realpath(os.path.join(path, "bin", "python")), os.path.realpath(path) + os.sep
if interpreter.startswith(inside):
    interpreter = os.path.join(path, interpreter[len(inside):])
head.append(("interpreter", interpreter))
with io.open(os.path.join(path, "manifest.json.new"), "w", encoding="utf-8") as out:
    out.write(u'{\n"format": 1,\n"created": %d,\n' % time.time())
    for key, value in head:
        out.write(u"%s: %s,\n" % (json.dumps(key), json.dumps(value)))
    out.write(u'"explicit": %s,\n"records": %s,\n"files": []\n}\n' % (lines(explicit), lines(records)))
GP_PYTHON
# The mark of completion must not reach the disk before what it speaks of.
sync -f "$gp_path" 2>/dev/null || sync
trap '' TERM HUP INT
mv "$gp_path/manifest.json.new" "$gp_path/manifest.json"
gp_say "done: $gp_path, Python $gp_version_made"
