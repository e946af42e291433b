"""The kinds of thing a host can have: one module per kind."""

from __future__ import annotations

from gpuprov.resources.apt import NEVER_DOWNGRADED, PROTECTED_APT, AptPackage, AptState, apt_transaction
from gpuprov.resources.command import Command
from gpuprov.resources.conda_env import CondaEnv, CondaEnvState, MicromambaSource
from gpuprov.resources.cuda_toolkit import CudaToolkit, CudaToolkitState, RunfileSource
from gpuprov.resources.directory import Directory, DirectoryState
from gpuprov.resources.driver import DriverCheck, check_driver
from gpuprov.resources.file import File, FileState
from gpuprov.resources.pip_package import PipPackage, PipState
from gpuprov.resources.profile import ProfileScript, ProfileState
from gpuprov.resources.symlink import Symlink, SymlinkState
from gpuprov.resources.template import Template, Templates, TemplateSource
from gpuprov.resources.wheel import Abi, BuiltWheel, ReleaseWheel, Sdist
from gpuprov.resources.wheel_state import WheelState

__all__ = [
    "NEVER_DOWNGRADED",
    "PROTECTED_APT",
    "Abi",
    "AptPackage",
    "AptState",
    "BuiltWheel",
    "Command",
    "CondaEnv",
    "CondaEnvState",
    "CudaToolkit",
    "CudaToolkitState",
    "Directory",
    "DirectoryState",
    "DriverCheck",
    "File",
    "FileState",
    "MicromambaSource",
    "PipPackage",
    "PipState",
    "ProfileScript",
    "ProfileState",
    "ReleaseWheel",
    "RunfileSource",
    "Sdist",
    "Symlink",
    "SymlinkState",
    "Template",
    "TemplateSource",
    "Templates",
    "WheelState",
    "apt_transaction",
    "check_driver",
]
