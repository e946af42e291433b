#!/bin/bash
# Put together a whole CUDA 11.7 toolkit that compiles, from what fetch.sh fetched.
#
#   usage: assemble.sh OUT INPUTS        what is in OUT: see furnish.sh
#
# The headers are 11.7.99; thrust, cub and libcu++ are of 11.8. No wheel holds nvcc, cudafe++ or cicc:
# those are Debian's, 11.8.89, and bin/nvcc is a wrapper that says 11.7. Its cicc writes PTX 7.8, which
# the ptxas of 11.7 refuses, so ptxas is of 11.8 too. Shared libraries: the runtime and NVTX; for the
# others lib64/stubs has what a linker wants.
set -euo pipefail

out=$1 inputs=$2
here=$(cd "$(dirname "$0")" && pwd)
tree=$out/toolkit
lib=$tree/targets/x86_64-linux/lib include=$tree/targets/x86_64-linux/include
debian=$inputs/debian/usr wheels=$inputs/wheels/nvidia

rm -rf "$tree" "$out/man" "$out/prefixed"
mkdir -p "$tree"/{bin,nvvm/bin,nvvm/lib64,nvvm/libdevice,extras/CUPTI/include} "$lib" "$include"
ln -s targets/x86_64-linux/lib "$tree/lib64"
ln -s targets/x86_64-linux/include "$tree/include"

cp -a "$debian/include/." "$include/"
for part in "$wheels"/*; do
    case ${part##*/} in
        cuda_cupti) cp -a "$part/include/." "$tree/extras/CUPTI/include/" ;;
        *) cp -a "$part/include/." "$include/" ;;
    esac
done
cp -a "$debian/lib/x86_64-linux-gnu/"{stubs,libcudart_static.a,libcudadevrt.a} "$wheels/cuda_runtime/lib/libcudart.so.11.0" \
    "$wheels/nvtx/lib/libnvToolsExt.so.1" "$lib/"
ln -s libcudart.so.11.0 "$lib/libcudart.so"
ln -s libnvToolsExt.so.1 "$lib/libnvToolsExt.so"

cp -a "$debian/bin/"{cudafe++,fatbinary,nvlink,ptxas,bin2c,cuobjdump,nvprune,cu++filt,__nvcc_device_query} "$tree/bin/"
cp -a "$debian/lib/nvidia-cuda-toolkit/bin/crt" "$tree/bin/crt"
cp -a "$debian/lib/nvidia-cuda-toolkit/bin/nvcc" "$tree/bin/nvcc.real"
cp -a "$debian/lib/nvidia-cuda-toolkit/bin/cicc" "$tree/nvvm/bin/"
cp -a "$wheels/cuda_nvcc/nvvm/libdevice/libdevice.10.bc" "$tree/nvvm/libdevice/"
cp -aL "$debian/lib/x86_64-linux-gnu/libnvvm.so.4" "$tree/nvvm/lib64/libnvvm.so"
install -m 755 "$here/nvcc-11.7.sh" "$tree/bin/nvcc"
# NVIDIA's own profile: Debian's points below /usr/lib.
cat >"$tree/bin/nvcc.profile" <<'P'
TOP              = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/$(_NVVM_BRANCH_)/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(TOP)/$(_NVVM_BRANCH_)/bin:$(_HERE_):
INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
P
cp "$tree/bin/nvcc.profile" "$tree/bin/nvcc.real.profile"
chmod -R u+rwX,go+rX,go-w "$tree"

"$here/furnish.sh" "$out" 11.7.1 11.7.99
