#!/bin/bash
# Fetch what assemble.sh puts together, once per machine (about 1.5 GB; 200 MB of it are kept).
#
#   usage: fetch.sh     prints the folder with the inputs; nothing to do when it is complete
#   PYTHON              a Python with pip (default python3)
#
# Into $GPUPROV_LAB_CACHE/cuda/inputs-DIGEST (default ~/.cache/gpuprov-lab):
#   wheels/nvidia/...   headers and small libraries of the wheels pinned in wheels.txt, by the
#                       machine's own pip settings
#   debian/usr/...      the compiler, from Debian's non-free packages, by the machine's own mirror
#                       and a separate apt state, so that the machine's sources stay as they are
# The files are NVIDIA's and licensed: they stay in this cache.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${GPUPROV_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuprov-lab}/cuda
log=$cache/fetch.log
packages=(nvidia-cuda-toolkit libnvvm4 nvidia-cuda-dev)
version=11.8.89
python=${PYTHON:-python3}
suite=bookworm

die() {
    echo "fetch: $*" >&2
    exit 1
}

digest=$(cat "$here/fetch.sh" "$here/wheels.txt" | sha256sum | cut -c1-16)
inputs=$cache/inputs-$digest
if [ -e "$inputs/complete" ]; then
    echo "$inputs"
    exit 0
fi

wheels() {
    local archives=$work/archives
    "$python" -m pip download -q --no-deps --only-binary :all: --require-hashes -r "$here/wheels.txt" -d "$archives" \
        >>"$log" 2>&1 || die "the wheels could not be fetched; see $log."
    # The libraries are most of the 700 MB, and building needs few of them: stubs serve for the rest.
    "$python" - "$archives" "$work/wheels" <<'PY'
import pathlib, re, sys, zipfile
keep = re.compile(r"nvidia/([^/]+/include/|cuda_runtime/lib/libcudart|nvtx/lib/|cuda_nvcc/nvvm/libdevice/)")
for wheel in sorted(pathlib.Path(sys.argv[1]).glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if keep.match(name) and not name.endswith("__init__.py"):
                archive.extract(name, sys.argv[2])
PY
    rm -rf "$archives"
}

debian() {
    local mirror state=$work/apt have
    mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        sed -nE 's#^(URIs:|deb( \[[^]]*\])?) *(https?://[^ ]+).*#\3#p' | grep -v security | sed -n 1p) || true
    [ -n "$mirror" ] || die "no Debian mirror is named in this machine's apt sources."
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main non-free" >"$state/sources.list"
    local opts=(-o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root)
    (cd "$state" && apt-get "${opts[@]}" update -qq && apt-get "${opts[@]}" download -qq "${packages[@]}") >>"$log" 2>&1 ||
        die "Debian's packages ${packages[*]} could not be fetched; see $log."
    have=$(dpkg-deb -f "$(find "$state" -maxdepth 1 -name 'nvidia-cuda-toolkit_*.deb')" Version)
    case $have in $version~*) ;; *) die "$suite has nvidia-cuda-toolkit $have, and assemble.sh is written for $version." ;; esac
    mkdir -p "$work/debian"
    dpkg-deb -x "$state"/nvidia-cuda-toolkit_*.deb "$work/debian"
    dpkg-deb -x "$state"/libnvvm4_*.deb "$work/debian"
    # 774 MB, for these few: most of this script's time is the unpacking.
    dpkg-deb --fsys-tarfile "$state"/nvidia-cuda-dev_*.deb | tar -x -C "$work/debian" --wildcards \
        './usr/lib/x86_64-linux-gnu/libcudart_static.a' './usr/lib/x86_64-linux-gnu/libcudadevrt.a' \
        './usr/lib/x86_64-linux-gnu/stubs*' './usr/include/cuda_profiler_api.h' './usr/include/cufft*' './usr/include/fatbinary*'
    rm -rf "$state" "$work/debian/usr/share" "$work"/debian/usr/bin/{nvdisasm,compute-sanitizer} \
        "$work/debian/usr/lib/nvidia-cuda-toolkit/compute-sanitizer"
}

mkdir -p "$cache"
# One at a time: two test workers may start at once.
exec 9>"$cache/fetch.lock"
flock -w 1200 9 || die "another fetch has held the lock for twenty minutes."
if [ ! -e "$inputs/complete" ]; then
    [ "$(uname -m)" = x86_64 ] || die "the compiler is for x86_64, and this machine is $(uname -m)."
    : >"$log"
    work=$cache/fetching
    rm -rf "$work" "$inputs"
    mkdir -p "$work"
    wheels
    debian
    touch "$work/complete"
    mv "$work" "$inputs"
    find "$cache" -mindepth 1 -maxdepth 1 -name 'inputs-*' ! -path "$inputs" -exec rm -rf {} +
fi
echo "$inputs"
