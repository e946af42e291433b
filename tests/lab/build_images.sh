#!/bin/bash
# Build the images of the lab hosts: gpuprov-lab-a (like AutoDL) and gpuprov-lab-b (like vast.ai
# and RunPod), each tagged by a digest of its inputs, so that an unchanged lab is not built again.
#
#   usage: build_images.sh [a] [b]     prints "SHAPE IMAGE:TAG" for each shape (default: both)
#          build_images.sh --digest    prints the digest only; needs no engine
#
# GPUPROV_LAB_CACHE  folder for wheels, keys and logs (default ~/.cache/gpuprov-lab)
# GPUPROV_LAB_PYTHONS  further CPythons for conda environments, as prefixes separated by ':'
#                    (default: the newest 3.10 of pyenv, where the machine has one)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${GPUPROV_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuprov-lab}
log=$cache/build.log
suite=bookworm
export DOCKER_BUILDKIT=0   # BuildKit is no part of Debian's engine
mkdir -p "$cache"

die() {
    echo "build_images: $*" >&2
    exit 1
}

pythons() {
    if [ -n "${GPUPROV_LAB_PYTHONS+set}" ]; then
        tr ':' '\n' <<<"$GPUPROV_LAB_PYTHONS" | sed '/^$/d'
    else
        local root
        root=$(pyenv root 2>/dev/null || echo "$HOME/.pyenv")
        find "$root/versions" -maxdepth 1 -name '3.10.*' 2>/dev/null | sort -V | tail -n 1
    fi
}

ca_bundle() {
    local f
    for f in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
        if [ -n "$f" ] && [ -r "$f" ]; then
            echo "$f"
            return
        fi
    done
}

# The Debian 12 lines of the machine's own apt sources, one-line format; nothing on another machine.
apt_lines() {
    { find /etc/apt/sources.list /etc/apt/sources.list.d -type f -exec cat {} + 2>/dev/null || true; } | awk -v suite="$suite" '
        function flush(   i, n, list) {
            n = split(suites, list, " ")
            for (i = 1; i <= n; i++)
                if (list[i] ~ "^" suite "(-updates|-security)?$" && uris ~ /^http/)
                    print "deb " uris " " list[i] " main"
            suites = uris = ""
        }
        /^deb / { sub(/\[[^]]*\] */, ""); uris = $2; suites = $3; flush(); next }
        /^URIs:/ { uris = $2 }
        /^Suites:/ { $1 = ""; suites = $0 }
        /^Types:/ || /^$/ { flush() }   # a stanza ends
        END { flush() }' | sort -u
}

# The machine's index, unless it is a folder of this machine; the lab's hosts see no such folder.
pip_conf() {
    local index
    index=$(python3 -m pip config get global.index-url 2>/dev/null || true)
    echo "[global]"
    echo "cert = /etc/ssl/certs/ca-certificates.crt"
    echo "disable-pip-version-check = true"
    case ${PIP_INDEX_URL:-$index} in http*) echo "index-url = ${PIP_INDEX_URL:-$index}" ;; esac
}

digest() {
    {
        cat "$here/build_images.sh" "$(ca_bundle)" 2>/dev/null || true
        (cd "$here/images" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
        apt_lines
        pip_conf
        pythons
    } | sha256sum | cut -c1-16
}

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

# A Debian 12 to start from: one that is here, one that can be pulled, else one made here.
base_image() {
    local candidate
    for candidate in gpuprov-lab-base:$suite debian:12 debian:$suite; do
        if have_image "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    if timeout 90 docker pull -q debian:12 >/dev/null 2>&1; then
        echo debian:12
        return
    fi
    command -v mmdebstrap >/dev/null || die "debian:12 cannot be pulled and mmdebstrap is missing; run ensure_engine.sh --build-tools."
    apt_lines | mmdebstrap --quiet --variant=minbase --include=ca-certificates "$suite" - - 2>>"$log" |
        docker import --change 'CMD ["bash"]' - gpuprov-lab-base:$suite >/dev/null ||
        die "mmdebstrap could not make a base image; see $log."
    echo gpuprov-lab-base:$suite
}

# $1: folder for what the machine lends the images
machine_context() {
    local dest=$1 prefix version bundle
    mkdir -p "$dest/apt" "$dest/ca" "$dest/python"
    touch "$dest/ca/.keep" "$dest/apt/.keep" "$dest/python/.keep"
    pip_conf >"$dest/pip.conf"
    apt_lines >"$dest/apt/lab.list"
    [ -s "$dest/apt/lab.list" ] || rm "$dest/apt/lab.list"
    bundle=$(ca_bundle)
    # The machine's certificates beside Debian's own: update-ca-certificates puts them together,
    # and a package that runs it again loses none.
    [ -z "$bundle" ] || awk -v dir="$dest/ca" '
        /BEGIN CERTIFICATE/ { n++; file = sprintf("%s/machine-%03d.crt", dir, n) }
        file { print > file }
        /END CERTIFICATE/ { close(file); file = "" }' "$bundle"
    for prefix in $(pythons); do
        version=$("$prefix/bin/python3" -c 'import platform; print(platform.python_version())')
        cp -a "$prefix" "$dest/python/$version"
        (
            cd "$dest/python/$version"
            rm -rf lib/python3*/{test,idlelib,tkinter,turtledemo,lib2to3/tests} lib/*.a lib/python3*/config-* share
            find lib/python3*/site-packages -mindepth 1 -maxdepth 1 -exec rm -rf {} +
            find . -name __pycache__ -prune -exec rm -rf {} +
            # scripts of removed packages, and ensurepip must not find them
            find bin -type f ! -name 'python3.*' -delete
        )
    done
}

# $1: shape, $2: image to run pip in.  Wheels for the shape, kept between builds.
wheels() {
    local shape=$1 image=$2 dir
    dir=$cache/wheels/$shape-$(sha256sum <"$here/images/$shape/requirements.txt" | cut -c1-12)
    if [ ! -e "$dir/complete" ]; then
        mkdir -p "$dir" "$cache/pip"
        docker run --rm -v "$here/images/$shape/requirements.txt:/requirements.txt:ro" -v "$dir:/wheels" -v "$cache/pip:/pip" \
            "$image" python3 -m pip wheel -q --no-deps --cache-dir /pip -w /wheels -r /requirements.txt >>"$log" 2>&1 ||
            die "the wheels of shape $shape could not be fetched; see $log."
        touch "$dir/complete"
        find "$cache/wheels" -mindepth 1 -maxdepth 1 -name "$shape-*" ! -path "$dir" -exec rm -rf {} +
    fi
    echo "$dir"
}

build() { docker build -q "$@" >>"$log" 2>&1 || die "docker build $* failed; see $log."; }

# What earlier states of the lab left.
prune() {
    local repository line
    for repository in gpuprov-lab-{a,b,a-packages,b-packages,common}; do
        docker image ls --format '{{.Repository}}:{{.Tag}}' "$repository" | while read -r line; do
            [ "$line" = "$repository:$tag" ] || docker image rm "$line" >/dev/null 2>&1 || true
        done
    done
    docker image prune -f --filter label=gpuprov-lab=1 >/dev/null 2>&1 || true
}

tag=$(digest)
if [ "${1:-}" = --digest ]; then
    echo "$tag"
    exit 0
fi
[ $# -gt 0 ] || set -- a b

exec 9>"$cache/build.lock"
flock -w 1800 9 || die "another build has held the lock for half an hour."
todo=()
for shape in "$@"; do
    [ -f "$here/images/$shape/Dockerfile" ] || die "no such shape: $shape."
    have_image "gpuprov-lab-$shape:$tag" || todo+=("$shape")
done
if [ ${#todo[@]} -gt 0 ]; then
    : >"$log"
    context=$(mktemp -d)
    trap 'rm -rf "$context"' EXIT
    common=gpuprov-lab-common:$tag
    if ! have_image "$common"; then
        base=$(base_image)
        cp -a "$here/images/common" "$context/common"
        machine_context "$context/machine"
        build --label gpuprov-lab=1 -t "$common" --build-arg BASE="$base" -f "$context/common/Dockerfile" "$context"
    fi
    for shape in "${todo[@]}"; do
        shape_context=$context/shape-$shape
        mkdir "$shape_context"
        cp -a "$here/images/$shape" "$shape_context/$shape"
        dir=$(wheels "$shape" "$common")
        cp -al "$dir" "$shape_context/wheels" 2>/dev/null || cp -a "$dir" "$shape_context/wheels"
        # Tagged, so that the packages are still there when only a script of the shape changes.
        for target in packages ""; do
            build ${target:+--target "$target"} --label gpuprov-lab=1 -t "gpuprov-lab-$shape${target:+-$target}:$tag" \
                --build-arg COMMON="$common" -f "$shape_context/$shape/Dockerfile" "$shape_context"
        done
    done
    prune
fi
for shape in "$@"; do
    echo "$shape gpuprov-lab-$shape:$tag"
done
