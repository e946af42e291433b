from __future__ import annotations

import pytest

from .ground import Ground, make


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """The host as most have it: toolkits in /usr/local, nothing in use at login."""
    return make(tmp_path_factory.mktemp("ground"))
