"""A private apt and dpkg on this machine: its own root, lists and repository; nothing outside is touched."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpuprov.resources.apt import apt_transaction

_HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a transaction ended: status and everything it printed."""

    status: int
    output: str

    @property
    def simulated(self) -> list[str]:
        """The lines of the simulation that it announced: verb and name."""
        lines = (line.split() for line in self.output.splitlines())
        return [" ".join(words[:2]) for words in lines if words and words[0] in ("Inst", "Remv")]


@dataclass
class AptRoot:
    """``folder`` must be empty. ``shell`` runs the transaction."""

    folder: Path
    shell: list[str]
    packages: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (
            "root/var/lib/dpkg/info",
            "root/var/lib/dpkg/updates",
            "root/var/lib/apt/lists/partial",
            "root/var/cache/apt/archives/partial",
            "root/etc/apt/sources.list.d",
            "root/etc/apt/apt.conf.d",
            "root/etc/apt/preferences.d",
            "root/var/log/apt",
            "root/tmp",
            "repo",
        ):
            (self.folder / name).mkdir(parents=True)
        (self.admin / "status").touch()
        root = self.folder / "root"
        options = ["--root=" + str(root), "--force-not-root", "--log=/dev/null", "--force-script-chrootless"]
        (self.folder / "apt.conf").write_text(
            f'Dir "{root}/";\nDir::State::status "{self.admin}/status";\n'
            'APT::Sandbox::User "root";\nAPT::Architecture "amd64";\nAPT::Architectures { "amd64"; };\n'
            + "".join(f'DPkg::Options:: "{option}";\n' for option in options)
        )
        self.source("repo.list", f"deb [trusted=yes] file:{self.folder}/repo ./\n")
        self.index()

    @property
    def admin(self) -> Path:
        return self.folder / "root/var/lib/dpkg"

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "APT_CONFIG": str(self.folder / "apt.conf"),
            "DPKG_ADMINDIR": str(self.admin),
            # Maintainer scripts are not chrooted, so they see the machine: these packages have none but one.
            "PATH": f"{self.folder}/tools:/usr/sbin:/usr/bin:/sbin:/bin",
        }

    def source(self, name: str, text: str) -> None:
        (self.folder / "root/etc/apt/sources.list.d" / name).write_text(text)

    def add(self, name: str, version: str = "1.0", *, postinst: str = "", conffile: str = "", **fields: str) -> None:
        """Put a package into the repository."""
        tree = self.folder / "build" / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        control = {
            "Package": name,
            "Version": version,
            "Architecture": "all",
            "Maintainer": "nobody <nobody@example.com>",
            "Description": f"{name} for tests",
            **{key.replace("_", "-").title(): value for key, value in fields.items()},
        }
        text = "".join(f"{key}: {value}\n" for key, value in control.items())
        (tree / "DEBIAN/control").write_text(text)
        if postinst:
            (tree / "DEBIAN/postinst").write_text(postinst)
            (tree / "DEBIAN/postinst").chmod(0o755)
        if conffile:
            (tree / "etc").mkdir()
            (tree / f"etc/{name}.conf").write_text(conffile)
            (tree / "DEBIAN/conffiles").write_text(f"/etc/{name}.conf\n")
        deb = self.folder / "repo" / f"{name}_{version.replace(':', '%3a')}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, deb], check=True, capture_output=True)
        blob = deb.read_bytes()
        self.packages[deb.name] = {
            **control,
            "Filename": f"./{deb.name}",
            "Size": str(len(blob)),
            "SHA256": hashlib.sha256(blob).hexdigest(),
        }
        self.index()

    def index(self) -> None:
        """Write the repository's index; hosts see it at their next update."""
        stanzas = ("".join(f"{k}: {v}\n" for k, v in fields.items()) for fields in self.packages.values())
        text = "\n".join(stanzas).encode()
        (self.folder / "repo/Packages").write_bytes(text)
        (self.folder / "repo/Packages.gz").write_bytes(gzip.compress(text))

    def call(self, *words: str) -> str:
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def update(self) -> None:
        self.call("apt-get", "update")

    def install(self, *words: str) -> None:
        """Install with apt itself, as somebody else would."""
        self.update()
        self.call("apt-get", "-y", "--allow-downgrades", "install", *words)

    def installed(self) -> dict[str, str]:
        told = self.call("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n")
        lines = (line.split() for line in told.splitlines())
        return {name: version for name, version, state in lines if state[1] == "i"}

    def transaction(self, *items: str, **variables: str) -> Ended:
        """Run the job's script as the job runner would, with some of its variables set otherwise."""
        work = self.folder / "work"
        subprocess.run(["rm", "-rf", work], check=True)
        work.mkdir()
        script = apt_transaction(items).script
        for name, value in {"gp_lock_wait": "20", **variables}.items():
            before, rest = script.split(f"{name}=", 1)
            script = f"{before}{name}='{value}'\n{rest.split(chr(10), 1)[1]}"
        done = subprocess.run(
            [*self.shell, "-c", f"set -eu\n{script}"],
            cwd=work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return Ended(status=done.returncode, output=done.stdout.decode(errors="replace"))

    @contextmanager
    def locked(self, path: Path) -> Iterator[int]:
        """Another process of this machine holds an fcntl lock on the file."""
        child = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # Its end of input is its end, also when we are gone.
        with child as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder.pid
