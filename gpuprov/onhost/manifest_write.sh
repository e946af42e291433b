#!/bin/sh
# Write the manifest of a tree that is complete: the mark of completion, and the proof that it is ours.
# Text before it: manifest_list.sh.
# shellcheck disable=SC2154  # gp_token, gp_awk

# gp_manifest_write TREE WORK HEAD: HEAD is the inside of a JSON object with what the caller says of the tree, one key a
# line, each with its comma; WORK an existing folder for temporary files. manifest.json comes last, by rename.
# A subshell, for its cd.
gp_manifest_write() (
  if gp_lack find xargs stat sha256sum awk mv date; then exit 1; fi
  gp_t=$2/manifest
  mkdir -p "$gp_t" || exit
  cd "$1" || exit
  rm -f manifest.json manifest.files || exit
  find . -type f -print0 >"$gp_t/files" && find . -type l -print0 >"$gp_t/links" || exit
  gp_stats <"$gp_t/files" >"$gp_t/stats" && gp_stats <"$gp_t/links" >>"$gp_t/stats" || exit
  xargs -0 -r sha256sum <"$gp_t/files" >"$gp_t/sums" || exit
  # shellcheck disable=SC2016  # for the inner shell
  xargs -0 -r sh -c 't=$1; shift; for f; do printf "%s " "$t"; readlink "$f" || exit 255; done' sh "$gp_token" \
    <"$gp_t/links" >"$gp_t/targets" || exit
  # Joined by order, not by name: sha256sum writes odd names in ways that differ.
  # shellcheck disable=SC2016
  gp_token=$gp_token gp_folder=$gp_t awk "$gp_awk"'
    function flush(   rest, hex, size, mtime, value, type) {
      if (!open) return
      n++
      hex = part[2]; size = part[3]; mtime = part[4]; type = type_of(hex)
      value = type == "f" ? sum[++f] : esc(target[++l])
      if (value == "" && type == "f") { print "the files and their sums do not match" >"/dev/stderr"; bad = 1; exit 1 }
      name = esc(substr(name, 3))
      printf "%s\t%s\t%s\t%s\t%s\t%s\n", type, hex, size, mtime, value, name >listing
      printf "%s{\"path\":\"%s\",", (n > 1 ? ",\n" : ""), name >body
      if (type == "l") printf "\"target\":\"%s\"}", value >body
      else printf "\"size\":%s,\"mtime\":%s,\"mode\":\"%04o\",\"sha256\":\"%s\"}", size, mtime, bits(hex), value >body
    }
    BEGIN {
      token = ENVIRON["gp_token"]; folder = ENVIRON["gp_folder"]; skip = length(token) + 1
      listing = folder "/manifest.files"; body = folder "/body"
      printf "" >listing; printf "" >body
      while ((r = (getline line <(folder "/sums"))) > 0) {
        sub(/^\\/, "", line)
        if (substr(line, 65, 2) ~ /^ [ *]$/ && substr(line, 67, 2) == "./" && substr(line, 1, 64) !~ /[^0-9a-f]/)
          sum[++sums] = substr(line, 1, 64)
      }
      while ((r = (getline line <(folder "/targets"))) > 0) {
        if (substr(line, 1, skip) == token " ") target[++links] = substr(line, skip + 1)
        else target[links] = target[links] "\n" line
      }
    }
    substr($0, 1, skip) == token " " {
      flush()
      open = 1
      split($0, part, " ")
      name = substr($0, skip + length(part[2]) + length(part[3]) + length(part[4]) + 4)
      next
    }
    { name = name "\n" $0 }
    END {
      if (bad) exit 1
      flush()
      if (bad || f != sums || l != links) { print "the files and their sums do not match" >"/dev/stderr"; exit 1 }
    }' "$gp_t/stats" || exit
  gp_sum=$(sha256sum "$gp_t/manifest.files") || exit
  {
    printf '{\n"format": 1,\n%s\n"created": %s,\n"listing": "%s",\n"files": [\n' "$3" "$(date +%s)" "${gp_sum%% *}" &&
      cat "$gp_t/body" && printf '\n]}\n'
  } >"$gp_t/manifest.json" || exit
  cat "$gp_t/manifest.files" >manifest.files && cat "$gp_t/manifest.json" >manifest.json.new || exit
  chmod 644 manifest.files manifest.json.new && mv -f manifest.json.new manifest.json || exit
  rm -rf "$gp_t"
)
