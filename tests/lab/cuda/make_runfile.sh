#!/bin/bash
# Pack an assembled tree as a self-extracting installer like NVIDIA's.
#
#   usage: make_runfile.sh TREE FILE.run RELEASE GCC_MAX DRIVER PAUSE NEEDS_LIBXML2
#   such as make_runfile.sh /tmp/t cuda_11.7.1_515.65.01_linux.run 11.7.1 11 515.65.01 0 0
#
# TREE has what furnish.sh describes; the last five are builds/facts of cuda-installer.sh.
# The same input gives the same bytes.
set -euo pipefail

tree=$(realpath "$1") file=$(realpath -m "$2")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$(dirname "$file")/packing.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/cuda/builds"
cp -al "$tree"/{toolkit,man,prefixed} "$work/cuda/builds/" 2>/dev/null || cp -a "$tree"/{toolkit,man,prefixed} "$work/cuda/builds/"
echo "$*" >"$work/cuda/builds/facts"
install -m 755 "$here/cuda-installer.sh" "$work/cuda/cuda-installer"
python3 "$here/makeself_header.py" /usr/share/makeself/makeself-header.sh >"$work/header"
# gzip is NVIDIA's as well, which gives the errors their shape; level 1 is quick to make, and n leaves the time out.
(cd "$work" && makeself --quiet --tar-quietly --gzip --complevel 1n --nox11 --noprogress --nocrc --header "$work/header" \
    --packaging-date 2022-06-08 --tar-extra "--sort=name --mtime=2022-06-08 --owner=0 --group=0 --numeric-owner" \
    "$work/cuda" "$work/file" "CUDA Toolkit $1" ./cuda-installer) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
chmod 755 "$work/file"
mv "$work/file" "$file"
