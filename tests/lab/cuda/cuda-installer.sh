#!/bin/sh
# Stand-in for NVIDIA's cuda-installer, the program that the self-extracting file starts after
# unpacking. The working folder is the unpacked archive:
#   builds/toolkit builds/man builds/prefixed   what furnish.sh describes
#   builds/facts    release, highest gcc major, number of the bundled driver (- for none), seconds to wait
#                   in the middle of the copying, 1 where libxml2 is needed
# What it does and what is made up: README.md.
set -u
umask 022

read -r release gcc_max driver pause needs_libxml2 <builds/facts
toolkit=${release%.*}
minor=${toolkit#*.}
number=$((${toolkit%%.*} * 100 + minor))
root=0
log=/tmp/cuda-installer.log
if [ "$(id -u)" = 0 ]; then
    root=1
    log=/var/log/cuda-installer.log
fi

if [ "$needs_libxml2" = 1 ] && ! /sbin/ldconfig -p | grep -q 'libxml2\.so\.2 '; then
    echo "./cuda-installer: error while loading shared libraries: libxml2.so.2: cannot open shared object file: No such file or directory" >&2
    exit 127
fi
# Another user's log of an earlier run ends the real one in a segmentation fault.
if [ $root = 0 ] && [ -e "$log" ] && [ "$(stat -c %u "$log")" != "$(id -u)" ]; then
    kill -SEGV $$
fi
: >"$log" || kill -SEGV $$

say() { printf '[%s]: %s\n' "$1" "$2" >>"$log"; }
fail() {
    say ERROR "$1"
    say INFO "Finished with code: 256"
    echo " Installation failed. See log at $log for details."
    exit 1
}
wrong() {
    echo "cuda-installer: $1" >&2
    usage >&2
    exit 1
}
older() { [ $number -lt "$1" ]; }

usage() {
    echo "Options:"
    echo "  --silent --toolkit --toolkitpath=<path> --defaultroot=<path> --tmpdir=<path>"
    echo "  --extract=<path> --override --no-man-page --help"
    if older 1304; then
        echo "  --driver --installpath=<path> --no-opengl-libs --no-drm --run-nvidia-xconfig"
        echo "  --kernel-source-path=<path> -m=<path> --kernel-module-build-directory=<path>"
    fi
    if older 1200; then echo "  --samples --samplespath=<path>"; fi
    if older 1103; then echo "  --librarypath=<path>"; fi
}

silent=0 want_toolkit=0 want_driver=0 want_other=0 override=0 man=1 toolkitpath='' installpath='' extract=''
for word; do
    option=${word%%=*} value=''
    case $word in *=*) value=${word#*=} ;; esac
    known=1
    case $option in
        --silent) silent=1 ;;
        --toolkit) want_toolkit=1 ;;
        --override) override=1 ;;
        --no-man-page) man=0 ;;
        --toolkitpath) toolkitpath=$value ;;
        --extract) extract=$value ;;
        --tmpdir | --defaultroot) ;;
        --help | -h)
            usage
            exit 0
            ;;
        --driver) older 1304 && want_driver=1 || known=0 ;;
        --installpath) older 1304 && installpath=$value || known=0 ;;
        --no-opengl-libs | --no-drm | --run-nvidia-xconfig | --kernel-source-path | --kernel-module-build-directory | -m)
            older 1304 || known=0
            ;;
        --samples) older 1200 && want_other=1 || known=0 ;;
        --samplespath) older 1200 || known=0 ;;
        --librarypath) older 1103 || known=0 ;;
        *) known=0 ;;
    esac
    [ $known = 1 ] || wrong "unrecognized option '$word'"
    case $option in
        *path | --tmpdir | --defaultroot | --extract) case $value in /*) ;; *) wrong "option '$option' needs an absolute path" ;; esac ;;
    esac
done

if [ -n "$extract" ]; then
    mkdir -p "$extract" && cp -a builds/. "$extract/" && exit 0
    exit 1
fi
[ $silent = 1 ] || wrong "this stand-in has no menu: pass --silent"
if [ $want_toolkit$want_driver$want_other = 000 ]; then
    [ $root = 1 ] || wrong "--silent without root needs one of --driver, --toolkit, --uninstall"
    want_toolkit=1   # no choice made is everything, the driver too
    if [ "$driver" != - ]; then want_driver=1; fi
fi

say INFO "Driver not installed."
say INFO "Checking compiler version..."
if [ $override = 0 ]; then
    problem=
    if ! command -v gcc >/dev/null; then
        problem="[error] Missing gcc. gcc is required to continue."
    else
        have=$(gcc -dumpfullversion -dumpversion)
        say INFO "gcc location: $(command -v gcc)"
        say INFO "gcc version: gcc version $have"
        if [ "${have%%.*}" -gt "$gcc_max" ]; then
            problem="unsupported compiler version: $have. Use --override to override this check."
        fi
    fi
    if [ -n "$problem" ]; then
        say ERROR "$problem"
        echo " Failed to verify gcc version. See log at $log for details."
        exit 255
    fi
fi

if [ $want_driver = 1 ]; then
    [ $root = 1 ] || fail "The driver can be installed by root only."
    echo "$driver" >/var/log/driver-was-installed   # for tests, which prove that it never happened
    say INFO "Installed: Driver $driver"
fi

if [ $want_toolkit = 1 ]; then
    destination=${toolkitpath:-${installpath:-/usr/local/cuda-$toolkit}}
    while [ "$destination" != "${destination%/}" ]; do destination=${destination%/}; done
    if [ $override = 0 ] && { [ -e "$destination/version.json" ] || [ -e "$destination/version.txt" ]; }; then
        fail "A toolkit is installed at $destination. Use --override to override this check."
    fi
    say INFO "Installing: CUDA Toolkit $toolkit"
    mkdir -p "$destination" 2>>"$log" || fail "boost::filesystem::create_directories: Permission denied: \"$destination\""
    for part in builds/toolkit/*; do
        cp -a "$part" "$destination/" 2>>"$log" || fail "boost::filesystem::copy_file: \"$part\", \"$destination/${part##*/}\""
        if [ "${part##*/}" = bin ]; then sleep "$pause"; fi
    done
    escaped=$(printf '%s\n' "$destination" | sed 's/[\\&|]/\\&/g')
    while read -r name; do
        sed -i "s|@PREFIX@|$escaped|g" "$destination/$name" || fail "Cannot write $destination/$name"
    done <builds/prefixed
    if [ $man = 1 ]; then
        mkdir -p /usr/share/man 2>/dev/null
        cp -a builds/man/. /usr/share/man/ 2>/dev/null || say WARNING "Cannot write to /usr/share/man"
    fi
    if [ $root = 1 ]; then
        if [ -e /usr/local/cuda ] && [ ! -L /usr/local/cuda ]; then
            say WARNING "/usr/local/cuda is no symbolic link"
        else
            ln -sfn "$destination/" /usr/local/cuda
        fi
        printf '%s\n' "$destination/targets/x86_64-linux/lib" "$destination/lib64" >"/etc/ld.so.conf.d/cuda-${toolkit%%.*}-$minor.conf"
        /sbin/ldconfig 2>/dev/null
        mkdir -p /var/log/nvidia/.uninstallManifests &&
            echo "$destination" >"/var/log/nvidia/.uninstallManifests/uninstallManifest-$toolkit"
        if [ -n "${SUDO_USER:-}" ] && id "$SUDO_USER" >/dev/null 2>&1; then
            chown -R "$SUDO_USER" "$destination"
        fi
    fi
fi

say INFO "Finished with code: 0"
echo "==========="
echo "= Summary ="
echo "==========="
echo
if [ $want_driver = 1 ]; then echo "Driver:   Installed"; else echo "Driver:   Not Selected"; fi
if [ $want_toolkit = 1 ]; then
    cat <<S
Toolkit:  Installed in $destination/

Please make sure that
 -   PATH includes $destination/bin
 -   LD_LIBRARY_PATH includes $destination/lib64, or, add $destination/lib64 to /etc/ld.so.conf and run ldconfig as root

To uninstall the CUDA Toolkit, run cuda-uninstaller in $destination/bin
S
fi
if [ $want_driver = 0 ] && [ "$driver" != - ]; then
    echo "***WARNING: Incomplete installation! This installation did not install the CUDA Driver. A driver of version at least ${driver%%.*}.00 is required for CUDA $toolkit functionality to work."
fi
echo "Logfile is $log"
