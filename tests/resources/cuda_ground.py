"""A host for the jobs of a CUDA toolkit, made of this machine with /etc, /usr/local, /srv and /tmp of the test's own.

The installer is a small script that does what NVIDIA's does, side effects included. Needs root, for mounts of its own.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuprov.model import Change, Job
from gpuprov.resources.cuda_toolkit import CudaToolkit, CudaToolkitState, RunfileSource

from .host import SHELLS

DEADLINE = 60
CUDART = "targets/x86_64-linux/lib/libcudart.so.11.7.99"
PLAIN = 12345
"""A user that is not root."""

RUNFILE = r"""#!/bin/sh
seen='' made=''
for a; do
  case $a in
  --silent | --toolkit | --override | --no-man-page) seen=$seen$a ;;
  --toolkitpath=/*) made=${a#*=} ;;
  --tmpdir=/*) tmp=${a#*=} ;;
  *) echo "Unknown option: $a" >&2; exit 1 ;;
  esac
done
[ "$seen" = --silent--toolkit--override--no-man-page ] || exit 2
[ -z "${SUDO_USER:-}${DISPLAY:-}" ] && [ "$(readlink /proc/self/fd/0)" = /dev/null ] || exit 3
log=/tmp/cuda-installer.log
[ "$(id -u)" != 0 ] || log=/var/log/cuda-installer.log
{ : >"$log"; } 2>/dev/null || kill -SEGV $$
mkdir "$tmp/unpacked" || exit 4
@BEFORE@
mkdir -p "$made/bin" "$made/include" "$made/targets/x86_64-linux/lib/stubs" "$made/nvvm/bin"
cd "$made"
printf '#!/bin/sh\necho "Cuda compilation tools, release 11.7, V11.7.99"\n' >bin/nvcc
chmod 755 bin/nvcc
ln -s targets/x86_64-linux/lib lib64
echo real >lib64/libcudart.so.11.7.99
ln -s libcudart.so.11.7.99 lib64/libcudart.so.11.0
ln -s libcudart.so.11.0 lib64/libcudart.so
ln -s "$made/bin/nvcc" nvvm/bin/nvcc
echo runtime >include/cuda_runtime.h
printf '{\n "cuda" : {\n  "name" : "CUDA SDK",\n  "version" : "11.7.1"\n }\n}\n' >version.json
printf 'cudaroot=%s\nincludedir=%s/include\n' "$made" "$made" >lib64/cudart.pc
printf '\0%s\0' "$made" >bin/binary
printf x >bin/open; chmod 6777 bin/open
@AFTER@
# As root it does this whatever it is told.
ln -sfn "$made/" /usr/local/cuda 2>/dev/null
echo "$made/lib64" 2>/dev/null >/etc/ld.so.conf.d/cuda-11-7.conf && ldconfig
printf '===========\n= Summary =\n===========\nToolkit:  Installed in %s/\n' "$made"
exit 0
"""


@dataclass(frozen=True)
class Ground:
    """A host's folders, and how to run a job there."""

    folder: Path
    shell: list[str]
    uid: int = 0

    @property
    def toolkits(self) -> Path:
        return self.folder / ("local" if self.uid == 0 else "srv/toolkits")

    @property
    def tree(self) -> Path:
        return self.toolkits / "cuda-11.7"

    def runfile(self, *, before: str = "", after: str = "", text: str = "") -> None:
        file = self.folder / "srv/cache/cuda_11.7_linux.run"
        file.write_text(text or RUNFILE.replace("@BEFORE@", before).replace("@AFTER@", after))
        os.chown(file, self.uid, self.uid)

    def toolkit(self, **fields: object) -> CudaToolkit:
        source = RunfileSource(name="cuda_11.7_linux.run", urls=("https://x.invalid/a.run",), sha256="0" * 64)
        path = "/usr/local/cuda-11.7" if self.uid == 0 else "/srv/toolkits/cuda-11.7"
        base = CudaToolkit(version="11.7", release="11.7.1", path=path, source=source, cache="/srv/cache")
        return dataclasses.replace(base, **fields)  # type: ignore[arg-type]

    def run(
        self, script: str, *, mount: str = "", tools: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a job. ``mount``: what else to mount before; ``tools``: commands that stand first on its PATH."""
        work = self.folder / "srv/work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        file = self.folder / "srv/script"
        file.write_text(script)
        os.chown(work, self.uid, self.uid)
        for name, text in (tools or {}).items():
            (self.folder / "srv/bin").mkdir(exist_ok=True)
            (self.folder / "srv/bin" / name).write_text(text)
            (self.folder / "srv/bin" / name).chmod(0o755)
        mounts = " && ".join(
            f'mount --bind "${n}" {at}' for n, at in enumerate(("/etc", "/usr/local", "/srv", "/tmp"), 1)
        )
        inner = f'{mounts} && {mount or ":"} && shift 4 && cd /srv/work && exec "$@"'
        folders = [str(self.folder / name) for name in ("etc", "local", "srv", "tmp")]
        user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"] if self.uid else []
        path = f"/srv/bin:{os.environ['PATH']}" if tools else os.environ["PATH"]
        env = {
            "PATH": path,
            "GPUPROV_WORK": "/srv/work",
            "GPUPROV_JOB": str(self.folder),
            "SUDO_USER": "me",
            "DISPLAY": ":0",
        }
        # The runner's staging folder is the working directory, and stdin is empty.
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", inner, "sh", *folders, *user, *self.shell, "-eu", "/srv/script"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=env,
            timeout=DEADLINE,
            check=False,
        )

    def look(self, toolkit: CudaToolkit, *, deep: bool = False) -> CudaToolkitState | None:
        probe = toolkit.probe()
        done = self.run(probe.deep or "" if deep else probe.script)
        assert done.returncode == 0, done
        return probe.parse(done.stdout.encode())

    def plan(self, toolkit: CudaToolkit) -> Change | None:
        return toolkit.plan(self.look(toolkit))

    def job(
        self, change: Change | None, *, mount: str = "", tools: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        assert change is not None
        (job,) = (step for step in change.steps if isinstance(step, Job))
        return self.run(job.script, mount=mount, tools=tools)

    def install(self, toolkit: CudaToolkit | None = None) -> None:
        toolkit = toolkit or self.toolkit()
        done = self.job(self.plan(toolkit))
        assert done.returncode == 0, done
        assert self.plan(toolkit) is None
        self.is_clean()

    def is_clean(self) -> None:
        """Nothing of an attempt is left, and nothing else was touched."""
        assert not list(self.toolkits.glob(".gpuprov*"))
        assert os.readlink(self.folder / "local/cuda") == "cuda-12.1"
        assert os.listdir(self.folder / "etc/ld.so.conf.d") == ["libc.conf"]
        assert (self.folder / "srv/cache/cuda_11.7_linux.run").exists(), "what was fetched stays"


def make(folder: Path, shell: str, uid: int = 0) -> Ground:
    etc = folder / "etc"
    for name in ("etc", "local/cuda-12.1", "srv/cache", "srv/toolkits", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    for name in (
        "passwd",
        "group",
        "shadow",
        "nsswitch.conf",
        "ld.so.cache",
        "login.defs",
        "pam.d",
        "security",
        "alternatives",
    ):
        source = Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, etc / name)
    (etc / "ld.so.conf.d").mkdir()
    (etc / "ld.so.conf.d/libc.conf").write_text("/usr/local/lib\n")
    (etc / "ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (folder / "local/cuda").symlink_to("cuda-12.1")
    os.chown(folder / "srv/toolkits", uid, uid)
    # As gpuprov's own state folder is: closed to everybody else.
    (folder / "srv/cache").chmod(0o700)
    os.chown(folder / "srv/cache", uid, uid)
    ground = Ground(folder, SHELLS[shell], uid)
    ground.runfile()
    return ground


@contextmanager
def watched(ground: Ground, *, always: bool = False) -> Iterator[list[str]]:
    """Look every 10 ms at what others see meanwhile; what must never be seen is in the list.

    ``always``: a moment without a tree is wrong as well.
    """
    wrong: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        all_parts = ("manifest.json", "manifest.files", "bin/nvcc", CUDART, "include/cuda_runtime.h")
        parts = [part for part in all_parts if (ground.tree / part).exists() or not ground.tree.exists()]
        while not stop.wait(0.002 if always else 0.01):
            if always and not ground.tree.exists():
                wrong.append("no tree")
            elif ground.tree.exists():
                wrong.extend(f"half a tree, without {part}" for part in parts if not (ground.tree / part).exists())
            if os.readlink(ground.folder / "local/cuda") != "cuda-12.1":
                wrong.append("/usr/local/cuda was moved")

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield wrong
    finally:
        stop.set()
        thread.join()
