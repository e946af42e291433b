"""A small host for wheels: an environment with a stand-in for torch, compilers that are scripts, a source.

The source brings its own build backend, so that neither setuptools nor an index is needed; what it compiles is a real
shared object, made by the machine's own cc under the name of gcc-11.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuprov.model import Change, Job, Obtain
from gpuprov.resources import Directory
from gpuprov.resources.wheel import Abi, BuiltWheel, Sdist

from .host import SHELLS

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

TORCH = """
import os
from torch.version import __version__
from torch import version
class _C:
    _GLIBCXX_USE_CXX11_ABI = False
class cuda:
    @staticmethod
    def is_available():
        return os.path.exists(os.path.join(os.path.dirname(__file__), "gpu"))
class _Zeros:
    def cpu(self):
        if os.path.exists(os.path.join(os.path.dirname(__file__), "busy")):
            raise RuntimeError("CUDA error: all CUDA-capable devices are busy")
def zeros(*shape, device):
    return _Zeros()
answer = 42
"""

BACKEND = r"""
import base64, hashlib, json, os, subprocess, sys, zipfile
NAME, VERSION = "mini_attn", "0.1"
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = "%s-%s.dist-info" % (NAME, VERSION)
    os.makedirs(os.path.join(folder, info))
    with open(os.path.join(folder, info, "METADATA"), "w") as out:
        out.write("Metadata-Version: 2.1\nName: mini-attn\nVersion: %s\n" % VERSION)
    return info
def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.environ["TEST_LOG"], "w") as out:
        json.dump(dict(os.environ), out)
    mode = os.environ.get("TEST_MODE", "")
    if mode.startswith("say:"):
        print(mode[4:], flush=True)
        raise RuntimeError("Error compiling objects for extension")
    code = "int mini_answer(void) { return 42; }"
    if mode == "undefined":
        other = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
        code = "extern int %s(void); int mini_answer(void) { return %s(); }" % (other, other)
    if mode == "syntax":
        code = "int mini_answer(void) { return forty_two; }"
    with open("ext.c", "w") as out:
        out.write(code)
    print("[1/2] compiling ext.c", flush=True)
    subprocess.run([os.environ["CC"], "-shared", "-fPIC", "-o", "ext.so", "ext.c"], check=True)
    print("[2/2] linking ext.so", flush=True)
    init = "import torch\nanswer = 42\n" if mode != "wrong" else "answer = 41\n"
    files = {"mini_attn/__init__.py": init.encode(), "mini_attn/_ext.so": open("ext.so", "rb").read()}
    info = "%s-%s.dist-info/" % (NAME, VERSION)
    files[info + "METADATA"] = ("Metadata-Version: 2.1\nName: mini-attn\nVersion: %s\n" % VERSION).encode()
    tag = "cp%d%d-cp%d%d-linux_x86_64" % (sys.version_info[:2] * 2)
    files[info + "WHEEL"] = ("Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (path, digest, len(data))
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    name = "%s-%s-%s.whl" % (NAME, VERSION, tag)
    with zipfile.ZipFile(os.path.join(folder, name), "w") as out:
        for path, data in files.items():
            out.writestr(path, data)
    return name
"""

PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
INFO = "Metadata-Version: 2.1\nName: mini-attn\nVersion: 0.1\n"
CHECK = 'if module.answer != torch.answer:\n    raise AssertionError(f"{module.answer} is not {torch.answer}")\n'


def sdist() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("pyproject.toml", PROJECT), ("backend.py", BACKEND), ("PKG-INFO", INFO)):
            entry = tarfile.TarInfo(f"mini_attn-0.1/{name}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


SDIST = sdist()
SHA256 = hashlib.sha256(SDIST).hexdigest()


def make_env(folder: Path) -> Path:
    """A venv with pip, packaging and the stand-in for torch."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    site = folder / "lib" / f"python{PYTHON}" / "site-packages"
    files = {
        "torch/__init__.py": TORCH,
        "torch/version.py": "from typing import Optional\n__version__ = '1.13.1+cu117'\ncuda: Optional[str] = '11.7'\n",
        "torch/utils/__init__.py": "",
        "torch/utils/cpp_extension.py": "",
        "wheel.py": "",
        # As setuptools does, once torch has imported distutils
        "first.py": "import sys\nassert 'torch' not in sys.modules\n",
        "packaging.py": "",
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    return folder


@dataclass
class Ground:
    """One host: everything lies below one folder. ``shell`` runs the scripts."""

    folder: Path
    shell: str = "dash"
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, template: Path, shell: str = "dash") -> Ground:
        ground = cls(folder=folder, shell=shell)
        # A venv stands where its pyvenv.cfg does: a copy is as good as a new one; pip's thousand files are shared
        shared = ("pip", "setuptools", "pkg_resources")
        shutil.copytree(template, ground.prefix, symlinks=True, ignore=shutil.ignore_patterns(*shared))
        for name in shared:
            origin = template / ground.site.relative_to(ground.prefix) / name
            if origin.is_dir():
                (ground.site / name).symlink_to(origin)
        ground.program("bin/gcc-11", 'exec cc "$@"')
        ground.program("bin/g++-11", 'exec cc "$@"')
        ground.program("bin/ninja", "echo 1.11.1")
        ground.program("cuda-11.7/bin/nvcc", 'echo "Cuda compilation tools, release 11.7, V11.7.99"')
        (folder / "index").mkdir()
        (folder / "index" / "mini_attn-0.1.tar.gz").write_bytes(SDIST)
        return ground

    @property
    def prefix(self) -> Path:
        return self.folder / "an env"

    @property
    def site(self) -> Path:
        return self.prefix / "lib" / f"python{PYTHON}" / "site-packages"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def program(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def wheel(self, *, mode: str = "", **fields: Any) -> BuiltWheel:
        abi = {"python": PYTHON, "torch": "1.13.1+cu117", "cuda": "11.7", "cxx11_abi": False, "gcc": "11"}
        values: dict[str, Any] = {
            "name": "mini-attn",
            "version": "0.1",
            "module": "mini_attn",
            "env": Directory(path=str(self.prefix)),
            "torch": Directory(path="/torch"),
            "toolkit": Directory(path=str(self.folder / "cuda-11.7")),
            "abi": Abi(**{**abi, "glibc": "2.36", "archs": ("80", "86"), **fields.pop("abi", {})}),
            "source": Sdist(sha256=SHA256),
            "cache": str(self.cache),
            "jobs": 3,
            "settings": {"FLASH_ATTENTION_FORCE_BUILD": "TRUE", "TEST_MODE": mode, "TEST_LOG": str(self.log)},
            "modules": ("packaging", "torch.utils.cpp_extension", "wheel", "first"),
            "check": CHECK,
        }
        return BuiltWheel(**{**values, **fields})

    @property
    def log(self) -> Path:
        return self.folder / "build-env.json"

    def built_with(self) -> dict[str, str]:
        """The environment in which the source was built; empty when it was not."""
        return dict(json.loads(self.log.read_text())) if self.log.exists() else {}

    def run(self, text: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a job's script as a job is run: in an empty folder, with stdin empty."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        script = self.folder / "script"
        script.write_text(text)
        given = {
            "PATH": f"{self.folder / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "GPUPROV_WORK": str(work),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder / "index"),
            **self.env,
            **more,
        }
        return subprocess.run(
            [*SHELLS[self.shell], "-eu", str(script)],
            cwd=work,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )

    def plan(self, wheel: BuiltWheel, *, deep: bool = False) -> Change | None:
        probe = wheel.probe()
        text = probe.deep if deep and probe.deep else probe.script
        done = subprocess.run(
            [*SHELLS[self.shell], "-c", text], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=True
        )
        assert not done.stderr, done.stderr
        return wheel.plan(probe.parse(done.stdout))

    def apply(self, wheel: BuiltWheel, **more: str) -> subprocess.CompletedProcess[str]:
        """Plan and do. What a step obtains is in the folder ``index``, under its own name."""
        change = self.plan(wheel)
        assert change is not None
        for step in change.steps:
            if isinstance(step, Obtain):
                place = Path(step.path)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.folder / "index" / os.path.basename(step.sources[0]), place)
        job = change.steps[-1]
        assert isinstance(job, Job)
        return self.run(job.script, **more)
