#!/bin/sh
# Stand-in for the toolkit's own bin/cuda-uninstaller: removes the toolkit that it stands in, with
# the link and the linker's file where they are of this toolkit.
set -eu
tree=$(dirname "$(dirname "$(readlink -f "$0")")")
if [ "$(readlink -f /usr/local/cuda)" = "$tree" ]; then
    rm -f /usr/local/cuda
fi
for conf in /etc/ld.so.conf.d/cuda-*.conf; do
    if [ -e "$conf" ] && grep -qxF "$tree/lib64" "$conf"; then
        rm -f "$conf"
    fi
done
rm -rf "$tree"
echo "Successfully uninstalled"
