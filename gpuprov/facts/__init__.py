"""What a host is: parsers of the gathering script, and the values they give."""

from __future__ import annotations
