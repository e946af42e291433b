#!/bin/sh
# What an installer of CUDA may do to a host outside its own folder, as lines that can be compared.
# Lines that have to do with CUDA begin with "cuda "; others may change for other reasons while we work (another package
# was installed), and are told, not judged.

gp_outside() {
  for gp_f in /usr/local/cuda /etc/alternatives/cuda; do
    if [ -L "$gp_f" ]; then printf 'cuda link %s -> %s\n' "$gp_f" "$(readlink "$gp_f")"
    elif [ -e "$gp_f" ]; then printf 'cuda no link %s\n' "$gp_f"
    else printf 'cuda nothing at %s\n' "$gp_f"; fi
  done
  for gp_f in /etc/ld.so.conf /etc/ld.so.conf.d/*; do
    [ -f "$gp_f" ] || continue
    gp_s=other
    case $gp_f in *cuda*) gp_s=cuda ;; *) if grep -qi cuda "$gp_f" 2>/dev/null; then gp_s=cuda; fi ;; esac
    printf '%s file %s %s\n' $gp_s "$gp_f" "$(sha256sum <"$gp_f" 2>&1)"
  done
  for gp_f in ldconfig /sbin/ldconfig /usr/sbin/ldconfig; do
    command -v "$gp_f" >/dev/null || continue
    gp_s=$("$gp_f" -p 2>/dev/null) || break
    printf '%s\n' "$gp_s" | grep -i cuda | sed 's/^/cuda library /' || :
    printf 'other libraries %s\n' "$(printf '%s\n' "$gp_s" | sha256sum)"
    break
  done
}

# gp_compare BEFORE AFTER (files): say what is different; false when it has to do with CUDA.
gp_compare() {
  gp_r=0
  while IFS= read -r gp_s; do
    grep -qxF -e "$gp_s" "$2" && continue
    case $gp_s in cuda\ *) gp_r=1 && printf 'was: %s\n' "${gp_s#cuda }" ;; esac
  done <"$1"
  while IFS= read -r gp_s; do
    grep -qxF -e "$gp_s" "$1" && continue
    case $gp_s in
    cuda\ *) gp_r=1 && printf 'is:  %s\n' "${gp_s#cuda }" ;;
    *) printf 'changed meanwhile, by something else: %s\n' "${gp_s#other }" ;;
    esac
  done <"$2"
  return $gp_r
}
