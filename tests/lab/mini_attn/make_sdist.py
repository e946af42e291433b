"""Make mini-attn's source release: the same bytes each time, so that its sum can be pinned.

usage: python -m tests.lab.mini_attn.make_sdist FOLDER      prints the file and its sha256
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME, VERSION = "mini-attn", "0.1.0"
FILES = ("setup.py", "mini_attn/__init__.py", "csrc/mini_attn.cpp", "csrc/attention.cu")


def make(folder: Path) -> tuple[Path, str]:
    """Write ``mini_attn-0.1.0.tar.gz`` into a folder; return it and its sha256 in lower-case hex."""
    stem = f"{NAME.replace('-', '_')}-{VERSION}"
    contents = {name: (HERE / name).read_bytes() for name in FILES}
    contents["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n".encode()
    packed = io.BytesIO()
    # Time and owner are nobody's; the compressor is given no time either
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(contents):
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mode, entry.mtime = len(contents[name]), 0o644, 1_600_000_000
            tar.addfile(entry, io.BytesIO(contents[name]))
    data = gzip.compress(packed.getvalue(), compresslevel=9, mtime=0)
    path = folder / f"{stem}.tar.gz"
    path.write_bytes(data)
    return path, hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    print(*make(Path(sys.argv[1])))
