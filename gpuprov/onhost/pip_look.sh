#!/bin/sh
# Tell which copies of a Python package an environment knows of. Read-only, and starts no process.
# In:  gp_site   the environment's site-packages
#      gp_names  a function that calls its arguments with the paths that match the package's name, as globs
# Out: dist FLAGS FOLDER   for each; FLAGS: r RECORD is there, m METADATA is there, - neither, e an egg-info
#      end
# shellcheck disable=SC2154  # gp_site
gp_pip_show() {
  for gp_f; do
    [ -e "$gp_f" ] || continue
    gp_s=${gp_f##*/} gp_flags=''
    # A name with a newline is nobody's package.
    case $gp_s in *"
"*) continue ;; esac
    case $gp_s in
    *.dist-info)
      if [ -s "$gp_f/RECORD" ]; then gp_flags=r; fi
      if [ -s "$gp_f/METADATA" ]; then gp_flags=${gp_flags}m; fi
      ;;
    *) gp_flags=e ;;
    esac
    printf 'dist %s %s\n' "${gp_flags:--}" "$gp_s"
  done
}
