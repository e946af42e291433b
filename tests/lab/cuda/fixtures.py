"""pytest fixtures of the CUDA stand-ins, of scope session.  Load beside tests.lab.fixtures.

cuda_site         the download site, at an address that the lab's hosts reach
small_runfile     `small_runfile("12.4") -> Runfile`, built where it is not yet, and served
real_runfile_117  the installer whose toolkit compiles, served; its first build fetches 1.5 GB
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from tests.lab.cuda import runfiles
from tests.lab.cuda.runfiles import Runfile
from tests.lab.cuda.site import DownloadSite
from tests.lab.lab import Lab


class SmallRunfile(Protocol):
    """`small_runfile(release, *, pause=0, needs_libxml2=False, padding_mib=8, gcc_max=None) -> Runfile`."""

    def __call__(self, release: str, **options: Any) -> Runfile: ...


@pytest.fixture(scope="session")
def cuda_site(lab: Lab) -> Iterator[DownloadSite]:
    """The download site of this session. Set faults with `with cuda_site.fault(...)`: it is shared."""
    _, subnet = lab.network()
    with DownloadSite(f"{subnet}.1") as site:
        yield site


@pytest.fixture(scope="session")
def small_runfile(cuda_site: DownloadSite) -> SmallRunfile:
    """Small installers by release; see `runfiles.small`."""

    def make(release: str, **options: Any) -> Runfile:
        return cuda_site.publish(runfiles.small(release, **options))

    return make


@pytest.fixture(scope="session")
def real_runfile_117(cuda_site: DownloadSite) -> Runfile:
    """The installer of 11.7.1 whose toolkit compiles; it wants libxml2 on the host, as NVIDIA's does."""
    return cuda_site.publish(runfiles.whole_117())
