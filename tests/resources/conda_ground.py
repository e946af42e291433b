"""A host for these tests: a folder, a stand-in for conda that makes environments shaped like a venv, and jobs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpuprov.model import Change, Job, Member, Resource
from gpuprov.resources.conda_env import CondaEnv, CondaEnvState

S = TypeVar("S")

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
DEADLINE = 60.0

PYTHON = ".".join(map(str, sys.version_info[:3]))
MINOR = ".".join(map(str, sys.version_info[:2]))

_FAKE = """#!/bin/sh
# Stand-in for conda and micromamba: no channels, no solver; one Python, that of these tests.
case ${0##*/} in micromamba*) version=2.0.5 ;; *) version='conda 23.11.0' ;; esac
[ "$1" != --version ] || { echo "$version"; exit 0; }
printf '%s\\n' "$*" >>"$FAKE_FOLDER/calls"
env >"$FAKE_FOLDER/env"
while [ $# -gt 0 ]; do
  case $1 in
  -p) prefix=$2; shift ;;
  --file) cat "$2" >"$FAKE_FOLDER/explicit"; shift ;;
  esac
  shift
done
case ${FAKE_FAIL-} in
tos) echo 'CondaToSNonInteractiveError: Terms of Service have not been accepted for: x'; exit 1 ;;
missing) echo 'PackagesNotFoundError: The following packages are not available'; exit 1 ;;
odd) echo 'what?'; exit 7 ;;
esac
echo "Collecting package metadata: done"
mkdir -p "$prefix/conda-meta" "$prefix/bin" "$prefix/lib/python$FAKE_MINOR/site-packages"
printf 'home = %s\\ninclude-system-site-packages = false\\n' "$FAKE_HOME" >"$prefix/pyvenv.cfg"
[ "${FAKE_FAIL-}" != middle ] || { echo 'No space left on device'; exit 1; }
if [ "${FAKE_FAIL-}" = nowork ]; then rm -rf "$GPUPROV_WORK"; exit 1; fi
if [ "${FAKE_FAIL-}" = hang ]; then : >"$FAKE_FOLDER/hangs"; sleep 60; fi
ln -s "$FAKE_HOME/python3" "$prefix/bin/python3"
ln -s python3 "$prefix/bin/python"
for one in "$FAKE_SITE"/pip "$FAKE_SITE"/pip-*.dist-info; do
  ln -s "$one" "$prefix/lib/python$FAKE_MINOR/site-packages/"
done
echo '{"name": "python", "url": "https://c.example/linux-64/python-1.conda", "md5": "0123"}' \\
  >"$prefix/conda-meta/python-$FAKE_PYTHON-h1_0.json"
echo '{"name": "pip", "url": "https://c.example/noarch/pip-1.conda", "sha256": "abcd"}' \\
  >"$prefix/conda-meta/pip-1.0-py_0.json"
echo "Executing transaction: done"
"""


@dataclass(frozen=True)
class Ended:
    """How a job ended: status and everything it printed."""

    status: int
    output: str


@dataclass
class Ground:
    """``folder`` must be empty; it has a blank in its name, as some disk may."""

    folder: Path
    shell: list[str] = field(default_factory=lambda: SHELLS["dash"])
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("bin", "home", "cache", "work", "envs", "fake", "../wheels"):
            (self.folder / name).mkdir(parents=True)
        self.tool("conda")
        # Whole disks are not synced for the sake of a test.
        sync = self.folder / "bin/sync"
        sync.write_text("#!/bin/sh\nexit 0\n")
        sync.chmod(0o755)
        # pip takes a blank in that list for its end
        (self.folder / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {self.wheels}\n")

    @property
    def wheels(self) -> Path:
        """The folder of wheels that pip is configured for."""
        return self.folder.parent / "wheels"

    @property
    def envs(self) -> str:
        return str(self.folder / "envs")

    @property
    def calls(self) -> list[str]:
        file = self.folder / "fake/calls"
        return file.read_text().splitlines() if file.exists() else []

    def tool(self, name: str, folder: str = "bin") -> Path:
        """Put a stand-in of that name somewhere."""
        path = self.folder / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_FAKE)
        path.chmod(0o755)
        return path

    def conda_env(self, name: str = "work", **fields: Any) -> CondaEnv:
        """The environment that these tests are about."""
        fields = {"path": f"{self.envs}/{name}", "python": MINOR, "cache": str(self.folder / "cache"), **fields}
        return CondaEnv(**fields)

    def given(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        base = Path(sys.base_prefix)
        return {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "GPUPROV_WORK": str(self.folder / "work"),
            "LC_ALL": "C",
            "FAKE_FOLDER": str(self.folder / "fake"),
            "FAKE_HOME": str(base / "bin"),
            "FAKE_SITE": str(_pip_site()),
            "FAKE_MINOR": MINOR,
            "FAKE_PYTHON": PYTHON,
            "PIP_CONFIG_FILE": str(self.folder / "pip.conf"),
            **self.env,
            **(extra or {}),
        }

    def start(self, job: Job, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a job as its runner does: a session of its own, an empty folder, ``-eu``."""
        work = self.folder / "work"
        for path in sorted(work.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        script = self.folder / "script"
        script.write_text(job.script)
        return subprocess.Popen(
            [*self.shell, "-eu", str(script)],
            cwd=work,
            env=self.given(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, job: Job, env: Mapping[str, str] | None = None) -> Ended:
        """Run a job to its end."""
        process = self.start(job, env)
        output, _ = process.communicate(timeout=DEADLINE)
        return Ended(process.returncode, output)

    def look(self, resource: Resource[S]) -> S | None:
        """Look with the shell; whatever options it has, the answer is the same."""
        script = resource.probe().script
        for options in ("", "set -eu\n"):
            done = subprocess.run(
                [*self.shell, "-c", options + script],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=self.given(),
                timeout=DEADLINE,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, b""), done
        return resource.probe().parse(done.stdout)

    def plan(self, resource: Resource[S]) -> Change | None:
        return resource.plan(self.look(resource))

    def apply(self, *resources: Resource[Any], env: Mapping[str, str] | None = None) -> Ended:
        """Do what is due for some resources: jobs one by one, members of a group together."""
        ended = Ended(0, "")
        members: dict[str, list[Member]] = {}
        for resource in resources:
            change = self.plan(resource)
            for step in change.steps if change else ():
                if isinstance(step, Member):
                    members.setdefault(step.group, []).append(step)
                else:
                    assert isinstance(step, Job), step
                    ended = self.run(step, env)
        for group in members.values():
            ended = self.run(group[0].join(tuple(step.item for step in group)), env)
        return ended

    def converge(self, *resources: Resource[Any], env: Mapping[str, str] | None = None) -> Ended:
        """Apply, and look again: nothing may be left to do."""
        ended = self.apply(*resources, env=env)
        assert ended.status == 0, ended.output
        for resource in resources:
            assert self.plan(resource) is None, (self.plan(resource), ended.output)
        return ended

    def wheel(self, name: str, version: str, *, requires: Iterable[str] = (), folder: Path | None = None) -> str:
        """Build a wheel of one module, and return its sum."""
        stem = f"{name.replace('-', '_')}-{version}"
        module = name.replace("-", "_").lower()
        files = {
            f"{module}/__init__.py": f"version = {version!r}\n",
            f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            + "".join(f"Requires-Dist: {line}\n" for line in requires),
            f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        files[f"{stem}.dist-info/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{stem}.dist-info/RECORD"))
        path = (folder or self.wheels) / f"{stem}-py3-none-any.whl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            for name_, text in files.items():
                archive.writestr(name_, text)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def index(self, folder: Path) -> str:
        """Make a package index of the wheels in a folder, and return its URL."""
        for wheel in folder.glob("*.whl"):
            page = folder / wheel.name.partition("-")[0].replace("_", "-").lower() / "index.html"
            page.parent.mkdir(exist_ok=True)
            old = page.read_text() if page.exists() else "<!DOCTYPE html><html><body>\n"
            page.write_text(f'{old}<a href="{wheel.as_uri()}">{wheel.name}</a>\n')
        return folder.as_uri()

    def imported(self, env: CondaEnv, module: str) -> str:
        """The version that the environment's Python imports; what went wrong otherwise."""
        done = subprocess.run(
            [f"{env.path}/bin/python", "-I", "-c", f"import {module}; print({module}.version)"],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def _pip_site() -> Path:
    """The site-packages that has a pip: that of the virtual environment, or of the Python it was made from."""
    for scheme in (sysconfig.get_path("purelib"), f"{sys.base_prefix}/lib/python{MINOR}/site-packages"):
        if os.path.isdir(f"{scheme}/pip"):
            return Path(scheme)
    raise AssertionError("these tests need a pip")


def ours(**fields: Any) -> CondaEnvState:
    """A state, in few words."""
    return CondaEnvState(**{"kind": "ours", "tool": "/bin/conda", **fields})
