#!/bin/sh
# The thorough look at a package: each file that its RECORD lists is there, with its size. Read-only.
# In:  gp_py, the environment's Python; gp_package, a normalised name.
# Out: broken N of M: PATH, when any is not.
# shellcheck disable=SC2154  # both are set by what precedes
if [ -x "$gp_py" ]; then
  "$gp_py" -I - "$gp_package" <<'GP_PYTHON' || :
import os, re, sys
from importlib import metadata

bad, count = [], 0
for dist in metadata.distributions():
    name = (dist.metadata and dist.metadata["Name"]) or ""
    if re.sub(r"[-_.]+", "-", name).lower() != sys.argv[1]:
        continue
    for entry in dist.files or ():
        count += 1
        path = str(dist.locate_file(entry))
        # Bytecode may be deleted by anybody, and is written anew.
        if path.endswith(".pyc"):
            continue
        if not os.path.isfile(path) or (entry.size is not None and os.path.getsize(path) != entry.size):
            bad.append(str(entry))
if bad:
    print("broken %d of %d: %s" % (len(bad), count, bad[0].replace("\n", "?")))
GP_PYTHON
fi
