"""The Docker engine of this machine, its images for the lab and the lab's key, by command line."""

import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LABEL = "gpuprov-lab"
OWNER_LABEL = "gpuprov-lab.owner"


class LabError(RuntimeError):
    """The lab itself does not work; says nothing about the code under test."""


def cache_folder() -> Path:
    """Where keys, wheels and logs are kept between runs; never the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(os.environ.get("GPUPROV_LAB_CACHE") or Path(base) / "gpuprov-lab")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def command(*args: str, stdin: str | None = None, timeout: float = 60) -> str:
    """Run a command of this machine and give its output; LabError when it fails."""
    try:
        done = subprocess.run(args, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{args[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(args)} took longer than {timeout:.0f} s") from error
    if done.returncode:
        raise LabError(f"{' '.join(args)}: exit status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def docker(*args: str, stdin: str | None = None, timeout: float = 60) -> str:
    """Run the docker client."""
    return command("docker", *args, stdin=stdin, timeout=timeout)


def ensure_engine() -> None:
    """Start the engine where none answers; LabError with one sentence when that cannot be."""
    command(str(HERE / "ensure_engine.sh"), "--build-tools", timeout=600)


def build_images(*shapes: str) -> dict[str, str]:
    """Build what is not built yet and give {shape: image}."""
    lines = command(str(HERE / "build_images.sh"), *shapes, timeout=1800).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def private_key() -> Path:
    """The lab's key pair, made at first use."""
    path = cache_folder() / "id_ed25519"
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuprov-lab", "-f", str(fresh))
        # The public half first: whoever sees the private one finds both.
        fresh.with_name(f"{fresh.name}.pub").rename(path.with_name(f"{path.name}.pub"))
        fresh.rename(path)
    return path


def public_key() -> str:
    """The line for authorized_keys."""
    return private_key().with_name("id_ed25519.pub").read_text().strip()


def pip_cache() -> Path:
    """The folder of what the hosts' pip fetches, kept on this machine: gigabytes, once."""
    folder = cache_folder() / "pip-of-hosts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def process_mark(pid: int) -> str:
    """A name for a process that no later process with the same number has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return f"{pid}-{stat.rpartition(')')[2].split()[19]}"


def remove_leftovers(*, of: str | None = None) -> None:
    """Remove containers and networks of one owner, or of all owners that are no more."""

    def gone(owner: str) -> bool:
        if of is not None:
            return owner == of
        match = re.fullmatch(r"(\d+)-\d+", owner)
        return match is not None and process_mark(int(match[1])) != owner

    form = f'{{{{.ID}}}} {{{{.Label "{OWNER_LABEL}"}}}}'
    for listing, removal in (
        (("ps", "-a", "--no-trunc"), ("rm", "-f", "-v")),
        (("network", "ls", "--no-trunc"), ("network", "rm")),
    ):
        rows = docker(*listing, "--filter", f"label={OWNER_LABEL}", "--format", form).splitlines()
        doomed = [row.split(" ", 1)[0] for row in rows if gone(row.partition(" ")[2])]
        if doomed:
            try:
                docker(*removal, *doomed)
            except LabError:
                if of is not None:  # another worker may be removing the same leftovers
                    raise
