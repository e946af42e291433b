"""The kinds of thing a host can have: one module per kind."""

from __future__ import annotations

from gpuprov.resources.apt import NEVER_DOWNGRADED, PROTECTED_APT, AptPackage, AptState, apt_transaction
from gpuprov.resources.command import Command
from gpuprov.resources.cuda_toolkit import CudaToolkit, CudaToolkitState, RunfileSource
from gpuprov.resources.directory import Directory, DirectoryState
from gpuprov.resources.driver import DriverCheck, check_driver
from gpuprov.resources.file import File, FileState
from gpuprov.resources.profile import ProfileScript, ProfileState
from gpuprov.resources.symlink import Symlink, SymlinkState
from gpuprov.resources.template import Template, Templates, TemplateSource

__all__ = [
    "NEVER_DOWNGRADED",
    "PROTECTED_APT",
    "AptPackage",
    "AptState",
    "Command",
    "CudaToolkit",
    "CudaToolkitState",
    "Directory",
    "DirectoryState",
    "DriverCheck",
    "File",
    "FileState",
    "ProfileScript",
    "ProfileState",
    "RunfileSource",
    "Symlink",
    "SymlinkState",
    "Template",
    "TemplateSource",
    "Templates",
    "apt_transaction",
    "check_driver",
]
