from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuprov.engine.graph import Declaration, Origin, build
from gpuprov.engine.judging import judge
from gpuprov.errors import InputError, Position
from gpuprov.facts import Conda, Driver, Env, Facts, Gpu, Pci, Toolkit, User
from gpuprov.model import Blocked, Id, Paths, Recheck, Resource, Same
from gpuprov.resources.acceptance import ENVS, Check, NvccCheck, Seen, SmiCheck, TorchCheck
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit, RunfileSource
from gpuprov.resources.pip_package import PipPackage
from gpuprov.resources.wheel import Abi, BuiltWheel, Sdist
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
ROLE = SearchPath().find("acceptance")
CARD = Gpu(index=0, name="NVIDIA GeForce RTX 4090", compute_cap="8.9")
FOLDER = "/root/miniconda3/envs/flash"

HOST = Facts(
    gpus=(CARD,),
    driver=Driver(version="535.54.03", answer="ok"),
    conda=(Conda(path="/root/miniconda3"),),
    user=User(name="root", home="/root"),
)
CARDLESS = dataclasses.replace(HOST, gpus=(), driver=Driver(version="", answer="not-found", pci=()))
STUCK = Driver(
    version="",
    answer="driver-not-loaded",
    pci=(Pci(address="0000:01:00.0", class_code="0x030000", device="0x2684"),),
)

ENV = CondaEnv(path=FOLDER, python="3.10.13")
TORCH = PipPackage(env=ENV, name="torch", version="1.13.1")
TOOLKIT = CudaToolkit(
    version="11.7", source=RunfileSource(name="cuda.run", urls=("https://example.org/cuda.run",), sha256="0" * 64)
)
WHEEL = BuiltWheel(
    name="flash-attn",
    version="1.0.9",
    module="flash_attn",
    env=ENV,
    torch=TORCH,
    toolkit=TOOLKIT,
    abi=Abi(python="3.10", torch="1.13.1+cu117", cuda="11.7", cxx11_abi=False, gcc="11", glibc="2.36"),
    source=Sdist(sha256="0" * 64),
    cache="/var/lib/gpuprov/cache",
    check="print('compared')",
)


def declare(*before: Resource[Any], facts: Facts = HOST, **values: Any) -> dict[str, Check]:
    declared = {resource.id: resource for resource in before}
    seen = facts.seen_as(name="h", expected_gpu=facts.expected_gpu, declared=declared)
    found = list(ROLE.declare(seen, values))
    checks = [resource for resource in found if isinstance(resource, Check)]
    assert checks == found
    return {resource.id: resource for resource in checks}


def torch(*before: Resource[Any], **values: Any) -> TorchCheck:
    check = declare(*before, **{"env": "flash", **values})[f"check:torch:{FOLDER}"]
    assert isinstance(check, TorchCheck)
    return check


def test_what_is_checked() -> None:
    assert list(declare()) == ["check:nvidia-smi", "check:containers"]
    found = declare(ENV, TORCH, TOOLKIT, WHEEL, env="flash", cuda="11.7")
    assert {id_: {need.id for need in check.needs()} for id_, check in found.items()} == {
        "check:nvidia-smi": set(),
        "check:nvcc:11.7": {TOOLKIT.id},
        "check:containers": set(),
        f"check:torch:{FOLDER}": {ENV.id, TORCH.id, WHEEL.id},
    }


def test_what_is_wanted_is_what_was_declared() -> None:
    check = torch(ENV, TORCH, TOOLKIT, WHEEL, cuda="11.7")
    assert (check.version, check.cuda, check.cards) == ("1.13.1", "11.7", 1)
    assert (check.module, check.module_version, check.compare) == ("flash_attn", "1.0.9", "print('compared')")


def test_a_release_that_no_role_declared_is_compared_as_well() -> None:
    check = torch(ENV, flash_attn="2.3.0")
    assert (check.version, check.module, check.module_version) == ("", "flash_attn", "2.3.0")
    assert "largest difference" in check.compare
    compile(check.compare, "compare", "exec")


def test_a_package_by_pip() -> None:
    pip = PipPackage(env=ENV, name="my-attn", version="2.0")
    check = torch(ENV, TORCH, pip, module="my_attn.ops")
    assert (check.module, check.module_version, check.compare) == ("my_attn.ops", "2.0", "")
    assert pip in check.after


def test_no_package_is_tried_when_none_is_wanted() -> None:
    check = torch(ENV, TORCH)
    assert (check.module, check.compare) == ("", "")


@pytest.mark.parametrize(
    ("toolkits", "folder"),
    [
        ((), "/usr/local/cuda-11.7"),
        ((Toolkit(path="/opt/cuda", real="/opt/cuda", version="11.7", compiler=True),), "/opt/cuda"),
        ((Toolkit(path="/opt/run", real="/opt/run", version="11.7"),), "/usr/local/cuda-11.7"),
        ((Toolkit(path="/opt/cuda", real="/opt/cuda", version="12.1", compiler=True),), "/usr/local/cuda-11.7"),
    ],
)
def test_a_toolkit_that_no_role_declared(toolkits: tuple[Toolkit, ...], folder: str) -> None:
    check = declare(facts=dataclasses.replace(HOST, toolkits=toolkits), cuda="11.7")["check:nvcc:11.7"]
    assert isinstance(check, NvccCheck)
    assert check.folder == folder


PENDING: dict[str, tuple[Facts, bool]] = {
    "a card": (HOST, False),
    "a card, as promised": (dataclasses.replace(HOST, expected_gpu="RTX 4090"), False),
    "no card yet": (dataclasses.replace(CARDLESS, expected_gpu="RTX 4090"), True),
    "no card, and none promised": (CARDLESS, False),
    "a card that does not work": (dataclasses.replace(CARDLESS, driver=STUCK, expected_gpu="RTX 4090"), False),
}


@pytest.mark.parametrize("case", PENDING)
def test_when_the_card_is_pending(case: str) -> None:
    facts, pending = PENDING[case]
    smi = declare(facts=facts)["check:nvidia-smi"]
    assert isinstance(smi, SmiCheck)
    for words in (smi.pending, torch(ENV, TORCH, facts=facts).pending):
        assert words.startswith("pending GPU: RTX 4090 is expected (no card: ") if pending else words == ""


def test_a_card_in_slices_is_not_counted() -> None:
    gpus = (CARD, dataclasses.replace(CARD, index=1, mig=True))
    assert torch(ENV, facts=dataclasses.replace(HOST, gpus=gpus)).cards == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cuda": "11"}, "X.Y"),
        ({"cuda": "11.7; x"}, "X.Y"),
        ({"flash_attn": "newest", "env": "flash"}, "release"),
        ({"module": "a b", "env": "flash"}, "module"),
        ({"env": ""}, "'env': it is empty; give an environment's name or its absolute path"),
        ({"env": "~/envs/x"}, "'env': give an environment's name or its absolute path, not '~/envs/x'"),
        ({"flash_attn": "1.0.9"}, "'env': it is missing"),
        ({"module": "other"}, "'env': it is missing"),
    ],
)
def test_parameters_that_cannot_be(values: dict[str, str], words: str) -> None:
    text = "".join(f"{name}: {value!r}\n" for name, value in values.items())
    params = loads(text, "site.yml")
    assert isinstance(params, Mapping)
    with pytest.raises(InputError, match=words):
        list(ROLE.declare(HOST, bind(ROLE, params, Position("site.yml", 1, 1))))


BOOKS = "apply playbooks/legacy-torch113.yaml or playbooks/torch-current.yaml with -e env="
OWN = dataclasses.replace(HOST, envs=(Env(path="/srv/envs/own", kind="conda"),))


@pytest.mark.parametrize(
    ("facts", "env", "folder", "do"),
    [
        (HOST, "flash", FOLDER, f"{BOOKS}flash"),
        (HOST, "torch113", "/root/miniconda3/envs/torch113", "apply playbooks/legacy-torch113.yaml"),
        (OWN, "flash", FOLDER, f"{BOOKS}flash, or name one that is there: /srv/envs/own"),
        (HOST, FOLDER, FOLDER, f"{BOOKS}flash"),
        (HOST, "/data/e/x", "/data/e/x", "make it with the role conda_env, prefix: /data/e/x"),
        (dataclasses.replace(HOST, paths=Paths(envs="/data")), "x", "/data/x", f"{BOOKS}x"),
        (dataclasses.replace(HOST, conda=None), "x", "/root/envs/x", f"{BOOKS}x"),
    ],
)
def test_an_environment_that_is_not_there_fails_as_a_layer_of_its_own(
    facts: Facts, env: str, folder: str, do: str
) -> None:
    """The other layers are judged all the same."""
    checks = declare(facts=facts, env=env, cuda="11.7")
    id_ = Id(f"check:torch:{folder}")
    assert list(checks) == ["check:nvidia-smi", "check:nvcc:11.7", "check:containers", id_]
    seen = checks[id_].probe().parse(b"absent\n")
    graph = build([Declaration(resource=check, origin=Origin(play=1, role="x")) for check in checks.values()])
    verdicts = judge(graph, {one: seen if one == id_ else Seen(words="fine") for one in graph})
    missing = f"torch: there is no Python at {folder}/bin/python: the environment is not on this host; {do}"
    assert verdicts[id_] == Blocked(missing)
    assert [verdict for one, verdict in verdicts.items() if one != id_] == [Same()] * 3


def test_the_playbooks_that_are_named_make_what_they_are_named_for() -> None:
    for env, name in ENVS.items():
        (play,) = yaml.safe_load((PLAYBOOKS / name).read_text())
        assert play["vars"]["env"] == env
    (play,) = yaml.safe_load((PLAYBOOKS / "cuda-side-by-side.yaml").read_text())
    assert "cuda" in play["vars"]


def test_it_is_looked_at_again_after_what_it_checks_was_made() -> None:
    checks = declare(ENV, TORCH, env="flash")
    place = Origin(play=1, role="x", position=Position("site.yml", 1, 1))
    resources: list[Resource[Any]] = [ENV, TORCH, *checks.values()]
    graph = build([Declaration(resource=resource, origin=place) for resource in resources])
    id_ = Id(f"check:torch:{FOLDER}")
    missing, fine = Seen(problem="torch: there is no Python"), Seen(words="torch")
    assert isinstance(judge(graph, {id_: missing})[id_], Recheck)
    bare = build([Declaration(resource=dataclasses.replace(checks[id_], after=()), origin=place)])
    assert judge(bare, {id_: fine})[id_] == Same()
    assert judge(bare, {id_: missing})[id_] == Blocked("torch: there is no Python")


def test_the_page_names_every_parameter() -> None:
    page = (Path(__file__).parents[2] / "roles" / "acceptance" / "README.md").read_text()
    for name in ("env", "cuda", "flash_attn", "module"):
        assert f"| `{name}`" in page
