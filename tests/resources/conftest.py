from __future__ import annotations

import pytest

from .host import SHELLS, Host


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest) -> Host:
    """A host with each of the shells in turn."""
    return Host(shell=SHELLS[request.param])
