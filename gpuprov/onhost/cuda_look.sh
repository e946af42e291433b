#!/bin/sh
# Tell what stands where a CUDA toolkit is to be: ours with what is damaged in it, another's, or something else. Read-only.
# Text before it: manifest_list.sh, manifest_look.sh.   In: gp_path.
# Out, a word and a value a line:
#      link TARGET      the path itself is a link
#      state absent | dangling | file | empty | ours | other
#      ours: what gp_manifest_look prints
#      other: version TEXT, by FILE (which told it); compiler, headers, cudart: yes
# shellcheck disable=SC2154  # gp_path
if [ -L "$gp_path" ]; then
  gp_s=$(readlink "$gp_path")
  printf 'link %s\n' "${gp_s%%"
"*}"
fi
if [ ! -e "$gp_path" ]; then
  if [ -L "$gp_path" ]; then
    echo state dangling
    exit 0
  fi
  # Behind a folder that is closed to us anything may stand.
  gp_d=${gp_path%/*}
  while [ -n "$gp_d" ] && [ ! -e "$gp_d" ] && [ ! -L "$gp_d" ]; do gp_d=${gp_d%/*}; done
  if [ -d "${gp_d:-/}" ] && [ ! -x "${gp_d:-/}" ]; then
    echo "no permission to look into $gp_d" >&2
    exit 1
  fi
  echo state absent
  exit 0
elif [ ! -d "$gp_path" ]; then
  echo state file
  exit 0
fi
cd "$gp_path" || exit 1
[ -r . ] || { echo "no permission to look into $gp_path" >&2; exit 1; }
if [ -f manifest.json ]; then
  echo state ours
  gp_manifest_look .
  exit
fi
gp_any=
for gp_f in * .[!.]* ..?*; do if [ -e "$gp_f" ] || [ -L "$gp_f" ]; then gp_any=yes; break; fi; done
if [ -z "$gp_any" ]; then
  echo state empty
  exit 0
fi
echo state other
gp_version='' gp_by=''
if [ -r version.json ] && [ -f version.json ]; then
  gp_in='' gp_n=0
  while [ $gp_n -lt 2000 ] && { IFS= read -r gp_s || [ -n "$gp_s" ]; }; do
    gp_n=$((gp_n + 1))
    case $gp_s in *'"cuda"'*) gp_in=yes ;; esac
    case $gp_in$gp_s in
    yes*'"version"'*)
      gp_s=${gp_s#*'"version"'*:*\"}
      gp_version=${gp_s%%\"*} gp_by=version.json
      break
      ;;
    esac
  done <version.json
fi
if [ -z "$gp_version" ] && [ -r version.txt ] && [ -f version.txt ]; then
  IFS= read -r gp_s <version.txt || :
  case $gp_s in 'CUDA Version '*) gp_version=${gp_s#CUDA Version } gp_by=version.txt ;; esac
fi
# Images made by NVIDIA carry neither file.
if [ -z "$gp_version" ] && [ -r include/cuda.h ]; then
  gp_s=$(grep -m 1 '^#define CUDA_VERSION ' include/cuda.h) || gp_s=
  gp_s=${gp_s##* }
  case $gp_s in *[!0-9]* | '') ;; *) gp_version=$((gp_s / 1000)).$((gp_s % 1000 / 10)) gp_by=cuda.h ;; esac
fi
printf 'version %s\nby %s\n' "$gp_version" "$gp_by"
if [ -f bin/nvcc ] && [ -x bin/nvcc ]; then echo compiler yes; fi
if [ -f include/cuda_runtime.h ]; then echo headers yes; fi
for gp_f in lib64/libcudart.so lib64/libcudart.so.*; do
  if [ -f "$gp_f" ] && [ -s "$gp_f" ]; then echo cudart yes; break; fi
done
