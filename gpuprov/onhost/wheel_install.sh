#!/bin/sh
# Install a wheel into an environment, see that it loads there (and, where there is a GPU, that its numbers are right),
# and write down what was done. Text before it: job_head.sh, wheel_env.sh.
# In:  gp_marker  what is written last
#      gp_inputs  JSON of what the wheel is for, gp_key its digest
#      gp_check   Python that compares numbers on a GPU, or empty
#      gp_import_known  as gp_build_known, of imports
#      gp_cache   the folder that wheels are kept in
# shellcheck disable=SC2154,SC2034  # the variables are set by what precedes, and read by what follows

# gp_keep WHEEL: into the cache, whole or not at all. Out: gp_wheel, where it lies there.
gp_keep() {
  gp_new=$gp_cache/wheels/.new-$gp_key
  if ! { rm -rf "$gp_new" && mkdir -p "$gp_new" && cp "$1" "$gp_new/" && printf '%s\n' "$gp_inputs" >"$gp_new/inputs.json" &&
    (cd "$gp_new" && sha256sum ./*.whl >sha256) && rm -rf "${gp_cache:?}/wheels/$gp_key" && mv "$gp_new" "$gp_cache/wheels/$gp_key"; }; then
    rm -rf "$gp_new"
    gp_stop 11 "the wheel could not be kept in $gp_cache/wheels"
  fi
  gp_wheel=$gp_cache/wheels/$gp_key/${1##*/}
}

# True when the cache has a whole wheel for this key. Out: gp_wheel.
gp_cached() {
  gp_d=$gp_cache/wheels/$gp_key
  [ -f "$gp_d/sha256" ] || return 1
  if ! (cd "$gp_d" && sha256sum -c sha256) >/dev/null 2>&1; then
    gp_say "the wheel in $gp_d is damaged, and is not used"
    rm -rf "$gp_d"
    return 1
  fi
  set -- "$gp_d"/*.whl
  gp_wheel=$1
}

# gp_try WHEEL: install it and see that it works. What does not load is taken out again.
gp_try() {
  rm -f "$gp_marker"
  gp_say "installing ${1##*/}"
  if ! gp_pip install --no-index --no-deps --force-reinstall --no-warn-script-location "$1" >"$gp_work/install.log" 2>&1; then
    grep -i 'error' "$gp_work/install.log" | head -n 3 >&2 || tail -n 3 "$gp_work/install.log" >&2
    gp_explain "$gp_work/install.log" "$gp_build_known"
    printf '%s\n' "${1##*/} could not be installed into $gp_prefix" >&2
    return 1
  fi
  if gp_verify; then return 0; fi
  gp_pip uninstall -y "$gp_name" >"$gp_work/uninstall.log" 2>&1 || :
  printf '%s\n' "${1##*/} does not work with torch $gp_torch, and was taken out again" >&2
  return 1
}

# Torch comes first, as its libraries are not on the linker's path. Each shared object is loaded with all its symbols
# resolved at once: only that proves that it fits this torch. Out: $gp_work/checked.
gp_verify() {
  printf '%s\n' "$gp_check" >"$gp_work/check.py"
  gp_r=0
  # A process of its own: a GPU that hangs holds only this one.
  timeout 600 "$gp_py" -I - "$gp_name" "$gp_module" "$gp_work/check.py" "$gp_work/checked" >"$gp_work/verify.log" 2>&1 <<'PY' || gp_r=$?
import ctypes, importlib, os, re, sys, sysconfig
name, module, check, said = sys.argv[1:]
def plain(text):
    return re.sub("[-_.]+", "-", text).lower()
def records():
    for site in sorted({sysconfig.get_paths()[key] for key in ("purelib", "platlib")}):
        for folder in os.listdir(site):
            found = re.match(r"(.+)-[^-]+\.dist-info$", folder)
            if found and plain(found.group(1)) == plain(name):
                yield site, os.path.join(site, folder, "RECORD")
import torch
loaded = importlib.import_module(module)
where = os.path.realpath(getattr(loaded, "__file__", None) or "/")
if not where.startswith(os.path.realpath(sys.prefix) + os.sep):
    sys.exit("%s was imported from %s, which is not in this environment" % (module, where))
for site, record in records():
    with open(record, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            path = os.path.join(site, line.split(",")[0].strip('"'))
            if re.search(r"\.so(\.[0-9]+)*$", path):
                ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
verdict = "imported"
with open(check, encoding="utf-8") as text:
    code = text.read()
if code.strip():
    why = "torch sees no GPU"
    usable = torch.cuda.is_available()
    if usable:
        try:
            torch.zeros(1, device="cuda").cpu()
        except Exception as error:
            usable, why = False, "the GPU cannot be used: " + (str(error).splitlines() or [type(error).__name__])[0]
    if usable:
        exec(compile(code, "check.py", "exec"), {"torch": torch, "module": loaded, "__name__": "check"})
        verdict = "compared with torch on a GPU"
    else:
        verdict = "pending GPU"
        print("imported; pending GPU: %s here, so that its numbers were not compared with torch's own" % why)
with open(said, "w") as out:
    out.write(verdict + "\n")
PY
  if [ "$gp_r" -eq 0 ]; then
    cat "$gp_work/verify.log"
    return 0
  fi
  [ "$gp_r" -ne 124 ] || printf '%s\n' "trying $gp_module did not end within 600 s" >&2
  [ "$gp_r" -lt 128 ] || printf '%s\n' "trying $gp_module was ended by signal $((gp_r - 128))" >&2
  tail -n 1 "$gp_work/verify.log" | cut -c 1-600 >&2
  gp_explain "$gp_work/verify.log" "$gp_import_known"
  return 1
}

# gp_commit HOW: the marker says what is there; it appears whole, and last.
gp_commit() {
  mkdir -p "${gp_marker%/*}"
  "$gp_py" -I - "$gp_prefix" "$gp_name" "$gp_version" "$gp_key" "$1" "$gp_work/checked" "$gp_inputs" >"$gp_marker.new" <<'PY' || gp_stop 14 "what was installed of $gp_name could not be read"
import hashlib, json, os, re, sys, sysconfig, time
prefix, name, version, key, how, checked, inputs = sys.argv[1:]
def plain(text):
    return re.sub("[-_.]+", "-", text).lower()
files, versions = {}, []
for site in sorted({sysconfig.get_paths()[key_] for key_ in ("purelib", "platlib")}):
    for folder in os.listdir(site):
        found = re.match(r"(.+)-([^-]+)\.dist-info$", folder)
        if not found or plain(found.group(1)) != plain(name):
            continue
        versions.append(found.group(2))
        with open(os.path.join(site, folder, "RECORD"), encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                path = os.path.normpath(os.path.join(site, line.split(",")[0].strip('"')))
                if re.search(r"\.so(\.[0-9]+)*$", path):
                    digest = hashlib.sha256()
                    with open(path, "rb") as stream:
                        for block in iter(lambda: stream.read(1 << 20), b""):
                            digest.update(block)
                    stat = os.stat(path)
                    files[os.path.relpath(path, prefix)] = (stat.st_size, int(stat.st_mtime), digest.hexdigest())
if versions != [version]:
    sys.exit("installed is %s %s, wanted %s" % (name, ", ".join(versions) or "nothing", version))
with open(checked) as said:
    head = {"format": 1, "name": name, "version": version, "key": key, "how": how, "checked": said.read().strip(),
            "created": int(time.time()), "inputs": json.loads(inputs)}
# One file a line, in this very spelling: wheel_look.sh reads it with sed.
rows = ['{"path":%s,"size":%d,"mtime":%d,"sha256":"%s"}' % ((json.dumps(path),) + files[path]) for path in sorted(files)]
print(json.dumps(head, sort_keys=True)[:-1] + ', "files": [\n' + ",\n".join(rows) + "\n]}")
PY
  sync "$gp_marker.new" 2>/dev/null || :
  mv -f "$gp_marker.new" "$gp_marker"
}
