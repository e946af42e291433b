#!/bin/bash
# Make a small toolkit tree that is quick to download and install and compiles nothing.
#
#   usage: small.sh OUT RELEASE PADDING_MIB      such as  small.sh /tmp/t 12.4.1 8
#
# A few hundred files in the layout of NVIDIA's; what is in OUT: see furnish.sh. The padding cannot
# be compressed, so it is the size of the installer too.
set -euo pipefail

out=$1 release=$2 padding=$3
here=$(cd "$(dirname "$0")" && pwd)
toolkit=${release%.*} major=${release%%.*} minor=${release#*.} patch=${release##*.}
minor=${minor%%.*}
case $release in
    11.7.1) compiler=11.7.99 ;;
    11.8.0) compiler=11.8.89 ;;
    12.1.0) compiler=12.1.66 ;;
    12.1.1) compiler=12.1.105 ;;
    12.4.0) compiler=12.4.99 ;;
    12.4.1) compiler=12.4.131 ;;
    10.2.89) compiler=10.2.89 ;;
    *) compiler=$toolkit.$((50 + patch)) ;;   # made up; the real ones are of this kind
esac
case $major in
    10) so=$toolkit ;;
    11) so=11.0 ;;
    *) so=$major ;;
esac

tree=$out/toolkit
lib=$tree/targets/x86_64-linux/lib include=$tree/targets/x86_64-linux/include
rm -rf "$tree" "$out/man" "$out/prefixed"
mkdir -p "$tree"/{bin,nvvm/bin,nvvm/libdevice,nvvm/lib64,extras/CUPTI/include,tools} "$lib/stubs" "$include"/{cub,thrust,crt}
ln -s targets/x86_64-linux/lib "$tree/lib64"
ln -s targets/x86_64-linux/include "$tree/include"

cat >"$tree/bin/nvcc" <<N
#!/bin/sh
# Stand-in of the lab: knows its version and compiles nothing.
case " \$* " in
*" --version "* | *" -V "*)
    echo "nvcc: NVIDIA (R) Cuda compiler driver"
    echo "Copyright (c) 2005-2024 NVIDIA Corporation"
    echo "Built on Thu_Mar_28_02:18:24_PDT_2024"
    echo "Cuda compilation tools, release $toolkit, V$compiler"
    echo "Build cuda_$toolkit.r$toolkit/compiler.00000000_0"
    exit 0
    ;;
esac
echo "nvcc: this stand-in of the lab compiles nothing" >&2
exit 1
N
for program in ptxas nvlink fatbinary cuobjdump; do
    printf '#!/bin/sh\necho "%s: stand-in of the lab, release %s, V%s"\n' "$program" "$toolkit" "$compiler" >"$tree/bin/$program"
done
chmod 755 "$tree"/bin/*
echo "TOP = \$(_HERE_)/.." >"$tree/bin/nvcc.profile"

number=$((major * 1000 + minor * 10))
printf '#define CUDA_VERSION %d\n' "$number" >"$include/cuda.h"
printf '#define CUDART_VERSION %d\n' "$number" >"$include/cuda_runtime_api.h"
for folder in cub thrust crt; do
    for n in {100..179}; do
        printf '// %s %d of CUDA %s\n#pragma once\n' "$folder" "$n" "$release" >"$include/$folder/part_$n.h"
    done
done
echo "// CUPTI" >"$tree/extras/CUPTI/include/cupti.h"

for name in "libcudart.so.$compiler" stubs/libcuda.so; do
    gcc -shared -fPIC -O1 -s -Wl,--build-id=none -DCUDART_VERSION="$number" -Wl,-soname,"libcudart.so.$so" \
        -o "$lib/$name" "$here/libcudart.c"
done
ln -s "libcudart.so.$compiler" "$lib/libcudart.so.$so"
ln -s "libcudart.so.$so" "$lib/libcudart.so"
# The same bytes each time, and none that gzip could make fewer.
python3 - "$release" "$padding" >"$lib/libcublas_static.a" <<'PY'
import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2]) << 20))
PY

"$here/furnish.sh" "$out" "$release" "$compiler"
