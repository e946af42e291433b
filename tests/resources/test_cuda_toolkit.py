"""What a CUDA toolkit plans for what stands at its path, and how that is looked at."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, InputError, Unseen
from gpuprov.knowledge import cuda
from gpuprov.model import Job, Obtain
from gpuprov.resources import manifest
from gpuprov.resources.cuda_toolkit import CudaToolkit, CudaToolkitState, RunfileSource, known_failures
from gpuprov.resources.driver import DriverCheck

from .host import Host

SOURCE = RunfileSource(name="cuda_11.7.1.run", urls=("https://x.invalid/a",), sha256="a" * 64, md5="b" * 32, size=9)
TOOLKIT = CudaToolkit(version="11.7", release="11.7.1", source=SOURCE)
GONE = CudaToolkit(version="11.7", present=False)


def ours(
    *damage: tuple[manifest.DamageKind, str], id_: str = "cuda-toolkit:11.7", inputs: str = "", **fields: Any
) -> CudaToolkitState:
    head = manifest.Head(id=id_, inputs=inputs or TOOLKIT.inputs, release="11.7.1")
    look = manifest.Look(head=head, damage=damage, totals={"missing": len(damage), "extra": 5, "unread": 2})
    return CudaToolkitState(kind="ours", look=look, **fields)


def other(version: str, *parts: str, **fields: Any) -> CudaToolkitState:
    there: dict[str, Any] = dict.fromkeys(parts, True)
    return CudaToolkitState(kind="other", version=version, **there, **fields)


ALL = ("compiler", "headers", "cudart")
NONE = CudaToolkitState(kind="ours", look=manifest.Look(head=None))
GONE_LINK = CudaToolkitState(kind="dangling", link="/opt/x")

SAME = None
PLANS: dict[str, tuple[CudaToolkit, CudaToolkitState | None, tuple[str, str] | str | None]] = {
    "absent": (TOOLKIT, None, ("create", "absent")),
    "an empty folder": (TOOLKIT, CudaToolkitState(kind="empty"), ("create", "an empty folder")),
    "ours": (TOOLKIT, ours(), SAME),
    "ours, damaged": (TOOLKIT, ours(("missing", "bin/nvcc")), ("replace", "CUDA 11.7.1, damaged")),
    "ours, of another file": (TOOLKIT, ours(inputs="x"), ("replace", "CUDA 11.7.1")),
    "ours, made as another": (TOOLKIT, ours(id_="cuda-toolkit:11.8"), "gpuprov made it as cuda-toolkit:11.8"),
    "a manifest of nobody": (TOOLKIT, NONE, "manifest.json cannot be read"),
    "a link to ours": (TOOLKIT, ours(link="/data/cuda-11.7"), SAME),
    "a link to ours, damaged": (TOOLKIT, ours(("missing", "x"), link="/data/c"), "it is a link to /data/c"),
    "somebody's": (TOOLKIT, other("11.7", *ALL), SAME),
    "somebody's, by a link": (TOOLKIT, other("11.7", *ALL, link="/opt/cuda"), SAME),
    "somebody's, of another version": (TOOLKIT, other("11.8", *ALL), "it holds CUDA 11.8"),
    "somebody's, of no known version": (TOOLKIT, other("", *ALL), "version cannot be told"),
    "libraries only": (TOOLKIT, other("11.7", "cudart"), "not complete: bin/nvcc, include/cuda_runtime.h missing"),
    "no headers": (TOOLKIT, other("11.7", "compiler", "cudart"), "include/cuda_runtime.h missing"),
    "something else": (TOOLKIT, other(""), "something else than CUDA"),
    "a file": (TOOLKIT, CudaToolkitState(kind="file"), "it is no folder"),
    "a link to nowhere": (TOOLKIT, GONE_LINK, "a link to /opt/x, which is not there"),
    "a link to an empty folder": (TOOLKIT, CudaToolkitState(kind="empty", link="/x"), "it is a link to /x"),
    "gone": (GONE, None, SAME),
    "gone: ours": (GONE, ours(), ("remove", "CUDA 11.7.1")),
    "gone: ours, damaged": (GONE, ours(("missing", "x")), ("remove", "CUDA 11.7.1")),
    "gone: somebody's": (GONE, other("11.7", *ALL), "is not removed"),
    "gone: ours, made as another": (GONE, ours(id_="x:1"), "gpuprov made it as x:1"),
    "gone: by a link": (GONE, ours(link="/data/c"), "is not removed"),
    "gone: a file": (GONE, CudaToolkitState(kind="file"), "is not removed"),
    "gone: what others left": (GONE, other(""), SAME),
    "gone: an empty folder": (GONE, CudaToolkitState(kind="empty"), SAME),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    toolkit, now, expected = PLANS[case]
    if isinstance(expected, str):
        with pytest.raises(HostFailed, match=expected):
            toolkit.plan(now)
        return
    change = toolkit.plan(now)
    assert (change and (change.action, change.before)) == expected


def test_steps() -> None:
    change = TOOLKIT.plan(None)
    assert change and change.after == "CUDA 11.7.1 at /usr/local/cuda-11.7"
    obtain, job = change.steps
    assert isinstance(obtain, Obtain) and isinstance(job, Job)
    assert (obtain.key, obtain.path) == ("cuda-runfile:11.7.1", "/var/lib/gpuprov/cache/cuda_11.7.1.run")
    assert (obtain.sources, obtain.sha256, obtain.md5, obtain.size) == (SOURCE.urls, SOURCE.sha256, SOURCE.md5, 9)
    assert job.locks == {"cuda-toolkit"}
    assert len(job.script) < 64 * 1024


@pytest.mark.parametrize("row", cuda.runfiles(), ids=lambda row: row.release)
def test_no_driver_is_ever_installed(row: cuda.Runfile) -> None:
    toolkit = dataclasses.replace(TOOLKIT, version=row.toolkit, release=row.release, path="/opt/a b's/x")
    change = toolkit.plan(None)
    assert change and isinstance(change.steps[1], Job)
    (line,) = [line for line in change.steps[1].script.splitlines() if line.startswith("gp_arguments()")]
    assert '--toolkitpath="$gp_made"' in line and '--tmpdir="$gp_tmp"' in line
    driver = {*cuda.installer_options(row.release, component="driver"), "--driver", "-m"}
    assert not set(line.split()) & driver


def test_why_it_is_replaced() -> None:
    change = TOOLKIT.plan(ours(("missing", "bin/nvcc"), ("missing", "a")))
    assert change and change.why == "2 of its files are not whole: 2 missing (bin/nvcc, a)"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"sha256": "c" * 64}, False),
        ({"urls": ("https://other.invalid/b",)}, True),
        ({"md5": "c" * 32}, True),
        ({"size": 0}, True),
    ],
)
def test_what_decides_the_content(change: dict[str, Any], same: bool) -> None:
    toolkit = dataclasses.replace(TOOLKIT, source=dataclasses.replace(SOURCE, **change), cache="/elsewhere")
    assert (toolkit.inputs == TOOLKIT.inputs) is same


def test_claims() -> None:
    assert TOOLKIT.claims().paths == {"/usr/local/cuda-11.7", "/var/lib/gpuprov/cache"}
    assert GONE.claims().paths == {"/usr/local/cuda-11.7"}
    assert TOOLKIT.place == "/usr/local/cuda-11.7"
    assert TOOLKIT.id == "cuda-toolkit:11.7"


def test_a_check_of_the_driver_comes_first() -> None:
    check = DriverCheck(wanted="CUDA 11.7", words="x")
    with_check = dataclasses.replace(TOOLKIT, driver=check)
    assert list(with_check.needs()) == [check]
    assert with_check.plan(None) == TOOLKIT.plan(None)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"version": "11"}, "X.Y"),
        ({"version": "11.7.1"}, "X.Y"),
        ({"version": "9.0", "release": None}, "not in the tables"),
        ({"release": "11.8.0"}, "release must be one of CUDA 11.7"),
        ({"release": "11.70"}, "release must be one of CUDA 11.7"),
        ({"source": None}, "source"),
        ({"path": "cuda"}, "absolute"),
        ({"path": "/"}, "below another"),
        ({"path": "/cuda-11.7"}, "below another"),
        ({"cache": "cache"}, "cache must be absolute"),
    ],
)
def test_wrong(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        dataclasses.replace(TOOLKIT, **fields)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"name": "a/b"}, "plain file name"),
        ({"name": "-rf"}, "plain file name"),
        ({"urls": ()}, "urls"),
        ({"urls": "https://x"}, "urls"),
        ({"sha256": "A" * 64}, "sha256"),
        ({"sha256": "a"}, "sha256"),
        ({"md5": "a"}, "md5"),
        ({"sha256": "", "md5": ""}, "missing"),
        ({"size": -1}, "size"),
    ],
)
def test_wrong_source(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        dataclasses.replace(SOURCE, **fields)


def test_an_error_of_the_tables_is_one_of_input() -> None:
    with pytest.raises(InputError):
        CudaToolkit(version="9.2", source=SOURCE)


def test_known_failures_tell_a_bad_archive_from_a_full_folder() -> None:
    texts = [line.split("\t")[0] for line in known_failures().splitlines()]
    assert texts.index("gzip: stdin: unexpected end of file") < texts.index("Signal caught, cleaning up")
    assert texts.index("Ensure there is enough space in /tmp") < texts.index("Extraction failed")
    assert all(len(line.split("\t")) == 2 for line in known_failures().splitlines())


@given(
    st.binary()
    | st.lists(st.sampled_from([b"state ours", b"head {", b"end", b"state other", b"version 11"])).map(b"\n".join)
)
def test_any_answer_is_read_or_unseen(data: bytes) -> None:
    try:
        state = TOOLKIT.probe().parse(data)
    except Unseen:
        return
    for toolkit in (TOOLKIT, GONE):
        try:
            toolkit.plan(state)
        except HostFailed as error:
            assert error.message


# --- the look --------------------------------------------------------------------------------


def toolkit_folder(
    folder: Path, version: str = '{"cuda" : {"name" : "CUDA SDK",\n  "version" : "11.7.20220701"}}'
) -> None:
    for name in ("bin", "include", "lib64"):
        (folder / name).mkdir(parents=True)
    (folder / "bin/nvcc").touch(0o755)
    (folder / "include/cuda_runtime.h").touch()
    (folder / "lib64/libcudart.so.11.0").write_text("x")
    (folder / "version.json").write_text(version)


def _version_txt(folder: Path) -> None:
    (folder / "version.json").unlink()
    (folder / "version.txt").write_text("CUDA Version 10.2.89\n")


def _header(folder: Path) -> None:
    (folder / "version.json").unlink()
    (folder / "include/cuda.h").write_text("/* x */\n#define CUDA_VERSION 12010\n")


def _no_library(folder: Path) -> None:
    (folder / "lib64/libcudart.so.11.0").unlink()
    (folder / "lib64/libcudart.so").symlink_to("gone")


FOLDERS: dict[str, tuple[Callable[[Path], object], dict[str, Any]]] = {
    "complete": (lambda f: None, {"version": "11.7", "release": "11.7.20220701", "complete": True}),
    "version.txt": (_version_txt, {"version": "10.2", "release": "10.2.89", "complete": True}),
    "cuda.h": (_header, {"version": "12.1", "complete": True}),
    "no version": (lambda f: (f / "version.json").unlink(), {"version": "", "complete": True}),
    "odd version": (lambda f: (f / "version.json").write_text('{"cuda":\n"version"\n:\n'), {"version": ""}),
    "no compiler": (lambda f: (f / "bin/nvcc").unlink(), {"complete": False, "lacks": "bin/nvcc"}),
    "not to be run": (lambda f: (f / "bin/nvcc").chmod(0o644), {"lacks": "bin/nvcc"}),
    "no headers": (lambda f: (f / "include/cuda_runtime.h").unlink(), {"lacks": "include/cuda_runtime.h"}),
    "library leads nowhere": (_no_library, {"lacks": "lib64/libcudart.so"}),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_look_at_what_is_not_ours(host: Host, tmp_path: Path, case: str) -> None:
    edit, expected = FOLDERS[case]
    folder = tmp_path / "odd name's"
    toolkit_folder(folder)
    edit(folder)
    state = host.look(dataclasses.replace(TOOLKIT, path=str(folder)))
    assert state and state.kind == "other"
    assert {name: getattr(state, name) for name in expected} == expected


def test_look_at_other_things(host: Host, tmp_path: Path) -> None:
    toolkit = dataclasses.replace(TOOLKIT, path=str(tmp_path / "x"))
    place = tmp_path / "x"
    assert host.look(toolkit) is None
    place.symlink_to("gone")
    assert host.look(toolkit) == CudaToolkitState(kind="dangling", link="gone")
    place.unlink()
    place.touch()
    assert host.look(toolkit) == CudaToolkitState(kind="file")
    place.unlink()
    place.mkdir()
    assert host.look(toolkit) == CudaToolkitState(kind="empty")
    (place / ".hidden").touch()
    assert host.look(toolkit) == CudaToolkitState(kind="other")
    (place / "manifest.json").write_text("{}")
    state = host.look(toolkit)
    assert state and state.look and state.look.head is None
    link = dataclasses.replace(TOOLKIT, path=str(tmp_path / "link"))
    toolkit_folder(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    state = host.look(link)
    assert state and (state.link, state.complete, link.plan(state)) == ("real", True, None)


def test_what_cannot_be_looked_at_is_no_absence(host: Host, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    tmp_path.chmod(0o755)
    script = dataclasses.replace(TOOLKIT, path=str(closed / "cuda-11.7")).probe().script
    user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    done = subprocess.run([*user, *host.shell, "-c", script], capture_output=True, timeout=60, check=False, cwd="/")
    assert (done.returncode, done.stdout, b"no permission" in done.stderr) == (1, b"", True)
