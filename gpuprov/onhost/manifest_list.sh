#!/bin/sh
# The files and links of a tree, one record each, whatever their names. For manifest_write.sh and manifest_look.sh.
#
# manifest.files is the listing that looks are compared with, one entry a line, between tabs:
#   f MODE SIZE MTIME  SHA256  PATH       MODE is stat's %f: type and bits in hex; MTIME in whole seconds
#   l MODE SIZE MTIME  TARGET  PATH
# PATH and TARGET are written as inside a JSON string; a byte that is no UTF-8 is \udcXX, as Python's surrogateescape has it.
LC_ALL=C
export LC_ALL

# Where a record begins: a name may hold newlines, but not what nobody knew when it was given.
read -r gp_token </proc/sys/kernel/random/uuid 2>/dev/null || gp_token=gpuprov-$$

# gp_stats: NUL-ended names on stdin; prints "TOKEN MODE SIZE MTIME NAME" for each, in order.
gp_stats() { xargs -0 -r stat -c "$gp_token %f %s %Y %n"; }

# Functions for awk. esc: text as inside a JSON string. bits: the permission bits of a mode.
# shellcheck disable=SC2016,SC2034  # the dollars are awk's; it is read by what follows
gp_awk='
BEGIN { for (i = 1; i < 256; i++) ord[sprintf("%c", i)] = i }
function tail_ok(s, at, n, low, high,   i, o) {
  for (i = 1; i <= n; i++) {
    o = ord[substr(s, at + i, 1)]
    if (o < low || o > high) return 0
    low = 128; high = 191
  }
  return 1
}
function esc(s,   out, i, n, c, o, k) {
  if (s !~ /[^] !#-[^-~]/) return s
  n = length(s)
  for (i = 1; i <= n; i++) {
    c = substr(s, i, 1); o = ord[c]; k = 0
    if (c == "\"" || c == "\\") c = "\\" c
    else if (o < 32 || o == 127) c = sprintf("\\u%04x", o)
    else if (o > 127) {
      if (o >= 194 && o <= 223) k = tail_ok(s, i, 1, 128, 191)
      else if (o == 224) k = 2 * tail_ok(s, i, 2, 160, 191)
      else if (o == 237) k = 2 * tail_ok(s, i, 2, 128, 159)
      else if (o >= 225 && o <= 239) k = 2 * tail_ok(s, i, 2, 128, 191)
      else if (o == 240) k = 3 * tail_ok(s, i, 3, 144, 191)
      else if (o == 244) k = 3 * tail_ok(s, i, 3, 128, 143)
      else if (o >= 241 && o <= 243) k = 3 * tail_ok(s, i, 3, 128, 191)
      if (k) { c = substr(s, i, k + 1); i += k } else c = sprintf("\\udc%02x", o)
    }
    out = out c
  }
  return out
}
function bits(hex,   i, v, h) {
  h = substr(hex, length(hex) - 2); v = 0
  for (i = 1; i <= 3; i++) v = v * 16 + index("0123456789abcdef", substr(h, i, 1)) - 1
  return v
}
function type_of(hex) { return substr(hex, 1, 1) == "a" && length(hex) == 4 ? "l" : "f" }
'

# gp_lack COMMAND...: name the commands that are missing here; true when any is.
gp_lack() {
  gp_missing=
  for gp_c; do command -v "$gp_c" >/dev/null 2>&1 || gp_missing="$gp_missing $gp_c"; done
  [ -n "$gp_missing" ] || return 1
  echo "this host lacks commands that a manifest needs:$gp_missing (package coreutils, findutils or mawk)" >&2
}
