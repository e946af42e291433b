"""Give makeself's header the manners of NVIDIA's: `python makeself_header.py MAKESELF_HEADER > OURS`."""

from __future__ import annotations

import sys
from pathlib import Path

# What each edit is for, the text from which to which it replaces, and what comes instead.
EDITS = (
    (
        "an option that the wrapper does not know goes to the installer, with all behind it",
        '\techo Unrecognized flag : "\\$1" >&2\n',
        "\texit 1\n\t;;\n",
        "\tbreak ;;\n",
    ),
    ("--help is the installer's", "    -h | --help)\n", "\texit 0\n\t;;\n", "    -h | --help)\n\tbreak ;;\n"),
    (
        "--tmpdir decides where the archive unpacks, too",
        "while true\ndo\n    case",
        "",
        'for a in "\\$@"; do\n    case "\\$a" in --tmpdir=/*) TMPROOT="\\${a#--tmpdir=}" ;; esac\ndone\n'
        "while true\ndo\n    case",
    ),
    (
        "no checksum before each run, so that a cut file fails in gzip and tar; --check still has one",
        'if test x"\\$SETUP_NOCHECK" != x1; then\n',
        "fi\n",
        "",
    ),
    ("no look at the free space", 'if test x"\\$nodiskspace" = xn; then\n', "\nfi\n", ""),
    (
        "what is said of a full disk and of a broken archive alike",
        "{ echo Extraction failed. >&2;",
        "",
        "{ echo Extraction failed. >&2; echo 'Ensure there is enough space in /tmp and that the installation package"
        " is not corrupt' >&2;",
    ),
    ("nothing is said while it unpacks", '\nquiet="n"\n', "", '\nquiet="y"\n'),
    ("no path of the machine that packed it", '"$MS_COMMAND"', "", "unknown"),
)


def edited(header: str) -> str:
    """Return the header with all edits made.

    Raises:
        ValueError: this release of makeself has another text at one of the places.
    """
    for purpose, begin, end, instead in EDITS:
        at = header.find(begin)
        if at < 0 or header.count(begin) > 1:
            raise ValueError(f"this makeself's header is not the one that is known here: {purpose}")
        stop = header.index(end, at + len(begin)) + len(end)
        header = header[:at] + instead + header[stop:]
    return header


if __name__ == "__main__":
    sys.stdout.write(edited(Path(sys.argv[1]).read_text()))
