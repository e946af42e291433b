#!/bin/sh
# Stand-in of the lab: the compiler driver of 11.8.89 with headers of 11.7.99, under the name of 11.7.
case " $* " in
*" --version "* | *" -V "*)
    echo "nvcc: NVIDIA (R) Cuda compiler driver"
    echo "Copyright (c) 2005-2022 NVIDIA Corporation"
    echo "Built on Wed_Jun__8_16:49:14_PDT_2022"
    echo "Cuda compilation tools, release 11.7, V11.7.99"
    echo "Build cuda_11.7.r11.7/compiler.31442593_0"
    exit 0
    ;;
esac
exec "$(dirname "$(readlink -f "$0")")/nvcc.real" "$@"
