#!/bin/sh
# What an environment has of a wheel. Nothing is changed, and Python is not run.
# In:  gp_prefix  the environment
#      gp_dist    the project's name as wheels write it (mini_attn)
#      gp_marker  our marker, written by wheel_commit.sh
#      gp_deep    not empty: every file's sum is taken, not only of those whose time changed
# Out, in lines: dist NAME-VERSION for each installed version · torch VERSION, cuda X.Y of the torch there ·
#     file SIZE MTIME SUM PATH for each file of the marker (SUM - where size and time are as they were, all - when it is
#     gone) · marker JSON on one line · end
# shellcheck disable=SC2154  # the variables are set by what precedes
for gp_d in "$gp_prefix"/lib/python3*/site-packages/"$gp_dist"-*.dist-info; do
  [ -d "$gp_d" ] || continue
  gp_d=${gp_d##*/}
  printf 'dist %s\n' "${gp_d%.dist-info}"
done
for gp_f in "$gp_prefix"/lib/python3*/site-packages/torch/version.py; do
  [ -f "$gp_f" ] || continue
  sed -n "s/^__version__ *= *['\"]\([^'\"]*\)['\"].*/torch \1/p; s/^cuda[^=]*= *['\"]\([^'\"]*\)['\"].*/cuda \1/p" "$gp_f"
done
if [ -f "$gp_marker" ]; then
  sed -n 's/^{"path":"\([^"\\]*\)","size":\([0-9]*\),"mtime":\([0-9]*\),"sha256":"\([0-9a-f]*\)"}.*/\2 \3 \1/p' "$gp_marker" |
    while read -r gp_size gp_mtime gp_path; do
      gp_now=$(stat -Lc '%s %Y' "$gp_prefix/$gp_path" 2>/dev/null) || gp_now='- -'
      gp_sum=-
      # Another time and the same size may be a copy or a change; another size needs no reading.
      case "$gp_now/${gp_deep:+deep}" in
      "$gp_size $gp_mtime/" | '- -/'*) ;;
      "$gp_size "*) gp_sum=$(sha256sum "$gp_prefix/$gp_path") || exit 1 ;;
      esac
      printf 'file %s %s %s\n' "$gp_now" "${gp_sum%% *}" "$gp_path"
    done || exit 1
  printf 'marker '
  head -c 65536 "$gp_marker" | tr '\n' ' ' || exit 1
  printf '\n'
fi
echo end
