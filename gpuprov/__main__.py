"""``python -m gpuprov``."""

from __future__ import annotations

import sys

from gpuprov.cli import main

if __name__ == "__main__":
    sys.exit(main())
