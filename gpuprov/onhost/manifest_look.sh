#!/bin/sh
# Compare a tree with its manifest: path, size and mtime by one pass of stat; what differs is hashed. Read-only.
# Text before it: manifest_list.sh.
# In:  gp_deep: yes hashes every file; otherwise at most 64 MiB of those with another mtime.
#      gp_extra: all prints the name of every file that is in no manifest, otherwise the first 20.
# Out: head LINE          of manifest.json, down to its files
#      damage KIND PATH   missing, truncated, changed, mode (a right to read or run is gone): the first 20
#      extra PATH         a file or link that the manifest does not know; no damage
#      total KIND N       how many of each there are; unread: same size, another mtime, too much to hash now
#      end
# shellcheck disable=SC2154  # gp_token, gp_awk

# gp_manifest_look TREE. A subshell, for its cd.
gp_manifest_look() (
  if gp_lack find xargs stat sha256sum awk tr; then exit 1; fi
  cd "$1" || exit
  [ -r manifest.json ] || { echo "$1/manifest.json cannot be read" >&2; exit 1; }
  gp_n=0 gp_listing=
  while [ $gp_n -lt 40 ] && IFS= read -r gp_s; do
    case $gp_s in
    '"files": ['*) break ;;
    '"listing": "'*) gp_listing=${gp_s#'"listing": "'} gp_listing=${gp_listing%%'"'*} ;;
    esac
    printf 'head %s\n' "$gp_s"
    gp_n=$((gp_n + 1))
  done <manifest.json
  gp_sum='' gp_bad=''
  if [ -f manifest.files ]; then gp_sum=$(sha256sum <manifest.files) || exit; fi
  if [ -z "$gp_sum" ]; then gp_bad=missing; elif [ "${gp_sum%% *}" != "$gp_listing" ]; then gp_bad=changed; fi
  gp_out=$(
    {
      if [ -f manifest.files ]; then cat manifest.files; fi
      printf '\n%s\n' "$gp_token"
      find . \( -type f -o -type l \) ! -path ./manifest.json ! -path ./manifest.files -print0 | gp_stats 2>/dev/null
    } | gp_token=$gp_token gp_deep=${gp_deep:-} gp_extra=${gp_extra:-} gp_bad=$gp_bad awk "$gp_awk"'
      function damage(kind, path) { total[kind]++; if (++damages <= 20) print "damage " kind " " path }
      # Whether one of the rights to read (4) and run (1) of the first are not among those of the second.
      function lacks(want, have,   i, w, h) {
        for (i = 1; i <= 64; i *= 8) {
          w = int(want / i) % 8; h = int(have / i) % 8
          if ((w >= 4 && h < 4) || (w % 2 && !(h % 2))) return 1
        }
        return 0
      }
      function flush(   key, want, path) {
        if (!open) return
        path = esc(substr(name, 3))
        if (!(path in known)) {
          total["extra"]++
          if (total["extra"] <= 20 || all) print "extra " path
          return
        }
        key = part[2] " " part[3] " " part[4]
        split(known[path], want, "\t")
        delete known[path]
        if (key == want[2] " " want[3] " " want[4] && !(deep && want[1] == "f")) return
        if (type_of(part[2]) != want[1]) damage("changed", path)
        else if (part[3] + 0 < want[3] + 0) damage("truncated", path)
        else if (part[3] != want[3]) damage("changed", path)
        else if (want[1] == "f" && lacks(bits(want[2]), bits(part[2]))) damage("mode", path)
        else if (deep || part[4] != want[4]) print "suspect\t" want[1] "\t" part[3] "\t" want[5] "\t" path "\t" (name ~ /[\n\t]/)
      }
      BEGIN {
        token = ENVIRON["gp_token"]; skip = length(token) + 1; deep = ENVIRON["gp_deep"] == "yes"
        all = ENVIRON["gp_extra"] == "all"
        if (ENVIRON["gp_bad"] != "") damage(ENVIRON["gp_bad"], "manifest.files")
      }
      !listed && $0 == token { listed = 1; next }
      !listed { if ($0 != "" && split($0, part, "\t") == 6) { order[++entries] = part[6]; known[part[6]] = $0 } ; next }
      substr($0, 1, skip) == token " " {
        flush()
        open = 1
        split($0, part, " ")
        name = substr($0, skip + length(part[2]) + length(part[3]) + length(part[4]) + 4)
        next
      }
      { name = name "\n" $0 }
      END {
        flush()
        for (i = 1; i <= entries; i++) if (order[i] in known) damage("missing", order[i])
        for (kind in total) print "total " kind " " total[kind]
      }'
  ) || exit
  case $gp_out in
  *suspect*) gp_suspects "$gp_out" ;;
  *) [ -z "$gp_out" ] || printf '%s\n' "$gp_out" ;;
  esac
  echo end
)

# gp_suspects OUT: pass on the lines of a first look, the suspects judged by their content.
gp_suspects() {
  {
    # Names that need no escaping stand for themselves; a suspect with another name stays unread.
    printf '%s\n' "$1" | gp_deep=${gp_deep:-} awk -F '\t' '
      $1 == "suspect" && $2 == "f" && $5 !~ /\\/ && ((bytes += $3) <= 67108864 || ENVIRON["gp_deep"] == "yes") { print "./" $5 }
    ' | tr '\n' '\0' | xargs -0 -r sha256sum 2>/dev/null
    printf '%s\n' "$1" | awk -F '\t' '$1 == "suspect" && $2 == "l" && $5 !~ /\\/ && ++n <= 400 { print $5 }' |
      while IFS= read -r gp_f; do printf 'link\t%s\t%s\n' "$gp_f" "$(readlink "$gp_f")"; done
    printf '\n%s\n' "$1"
  } | awk "$gp_awk"'
    function damage(line) { if (++damages <= 20) print line }
    !listed && $0 == "" { listed = 1; next }
    !listed && /^link\t/ { split($0, part, "\t"); found[part[2]] = "x" esc(substr($0, 7 + length(part[2]))); next }
    !listed { found[substr($0, 69)] = "x" substr($0, 1, 64); next }
    /^suspect\t/ {
      split($0, part, "\t")
      if (!(part[5] in found)) unread++
      else if (found[part[5]] != "x" part[4]) { changed++; damage("damage changed " part[5]) }
      next
    }
    /^damage / { damage($0); next }
    /^total changed / { changed += $3; next }
    { print }
    END {
      if (changed) print "total changed " changed
      if (unread) print "total unread " unread
    }'
}
