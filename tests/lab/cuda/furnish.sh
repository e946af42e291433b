#!/bin/bash
# Give an assembled tree what every toolkit has beside compiler and libraries.
#
#   usage: furnish.sh OUT RELEASE COMPILER      such as  furnish.sh /tmp/t 12.4.1 12.4.131
#
# OUT/toolkit   the tree: version file, uninstaller, and the files whose text holds the prefix
# OUT/man       manual pages, which the installer puts elsewhere
# OUT/prefixed  names of the files in which the installer replaces @PREFIX@ by the real folder
set -euo pipefail

out=$1 release=$2 compiler=$3
here=$(cd "$(dirname "$0")" && pwd)
toolkit=${release%.*}
tree=$out/toolkit
mkdir -p "$tree"/{bin,pkgconfig,doc,nsight-systems/target-linux-x64} "$out/man/man3" "$out/man/man7"

# The third part of the version is a build date in the real files of 11.7 to 12.2.
case $release in
    11.7.1) said=11.7.20220729 ;;   # this date is ours, the next three are NVIDIA's
    11.8.0) said=11.8.20220929 ;;
    12.1.0) said=12.1.20230222 ;;
    12.2.2) said=12.2.20230823 ;;
    *) said=$release ;;
esac
case $toolkit in
    10.*|11.0) echo "CUDA Version $said" >"$tree/version.txt" ;;
    *) cat >"$tree/version.json" <<J
{
   "cuda" : {
      "name" : "CUDA SDK",
      "version" : "$said"
   },
   "cuda_cudart" : {
      "name" : "CUDA Runtime (cudart)",
      "version" : "$compiler"
   },
   "cuda_nvcc" : {
      "name" : "CUDA NVCC",
      "version" : "$compiler"
   }
}
J
        ;;
esac

install -m 755 "$here/cuda-uninstaller.sh" "$tree/bin/cuda-uninstaller"
for name in cuda cudart; do
    cat >"$tree/pkgconfig/$name-$toolkit.pc" <<P
cudaroot=@PREFIX@
libdir=\${cudaroot}/targets/x86_64-linux/lib
includedir=\${cudaroot}/targets/x86_64-linux/include

Name: $name
Description: stand-in of the lab
Version: $toolkit
Libs: -L\${libdir} -lcudart
Cflags: -I\${includedir}
P
done
cat >"$tree/bin/nsys" <<'W'
#!/bin/sh
# Starts the program from the folder that the toolkit was installed to.
exec "@PREFIX@/nsight-systems/target-linux-x64/nsys" "$@"
W
cat >"$tree/nsight-systems/target-linux-x64/nsys" <<'W'
#!/bin/sh
echo "NVIDIA Nsight Systems: stand-in of the lab"
W
chmod 755 "$tree/bin/nsys" "$tree/nsight-systems/target-linux-x64/nsys"
(cd "$tree" && grep -rlF '@PREFIX@' bin pkgconfig | LC_ALL=C sort) >"$out/prefixed"
echo "A stand-in of the lab: no product of NVIDIA." >"$tree/README"
echo "See README." | tee "$tree/EULA.txt" >"$tree/DOCS"
for page in man3/cudaMalloc.3 man3/cudaFree.3 man7/cuda-lab.7; do
    echo ".TH LAB ${page##*.}" >"$out/man/$page"
done
