from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuprov.errors import InputError, Position
from gpuprov.facts import Facts, Toolkit
from gpuprov.guard.claims import PATHS, judge, on_host
from gpuprov.model import Paths, Resource
from gpuprov.resources import Directory, File, ProfileScript, Template
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

ROLE = SearchPath().find("cuda_switch")


def declared(facts: Facts | None = None, /, **values: Any) -> dict[str, Resource[Any]]:
    return {resource.id: resource for resource in ROLE.declare(facts or Facts(), values)}


def text(resource: Resource[Any]) -> str:
    file = resource.file if isinstance(resource, Template | ProfileScript) else resource
    assert isinstance(file, File)
    assert isinstance(file.content, bytes)
    return file.content.decode()


def bound(words: str) -> dict[str, object]:
    params = loads(words, "p.yaml")
    assert isinstance(params, Mapping)
    return bind(ROLE, params, Position("p.yaml", 1, 1))


def test_what_is_declared() -> None:
    found = declared()
    assert {id_: type(resource) for id_, resource in found.items()} == {
        "directory:/usr/local/lib/gpuprov": Directory,
        "file:/usr/local/lib/gpuprov/cuda-switch.sh": File,
        "file:/usr/local/bin/cuda-env": Template,
        "file:/usr/local/bin/cuda-list": Template,
        "file:/usr/local/bin/cuda-run": Template,
        "file:/usr/local/bin/cuda-use": Template,
        "profile:cuda-switch": ProfileScript,
        "file:/etc/profile.d/zzz-cuda-switch.sh": Template,
    }
    commands = [found[id_] for id_ in found if id_.startswith("file:/usr/local/bin/")]
    assert all(isinstance(c, Template) and c.mode == 0o755 for c in commands)


def test_the_guard_lets_it_pass() -> None:
    foreign = Toolkit(path="/usr/local/cuda-12.1", real="/usr/local/cuda-12.1", version="12.1")
    facts = Facts(toolkits=(foreign,))
    claims = {resource.id: resource.claims() for resource in ROLE.declare(facts, {"default": "12.1"})}
    assert judge(claims, [*PATHS, *on_host(facts)], ()) == ()


@pytest.mark.parametrize(
    ("paths", "values", "line"),
    [
        (Paths(), {}, "gpuprov_cuda_toolkits=/usr/local"),
        (Paths(toolkits="/data/cuda"), {}, "gpuprov_cuda_toolkits=/data/cuda"),
        (Paths(toolkits="/data/cuda"), {"toolkits": "/opt//x/"}, "gpuprov_cuda_toolkits=/opt/x"),
        (Paths(), {"toolkits": "/opt/a b's"}, "gpuprov_cuda_toolkits='/opt/a b'\"'\"'s'"),
    ],
)
def test_where_the_toolkits_lie(paths: Paths, values: dict[str, Any], line: str) -> None:
    found = declared(Facts(paths=paths), **values)
    for name in ("env", "list", "run", "use"):
        assert line in text(found[f"file:/usr/local/bin/cuda-{name}"]).splitlines()


@pytest.mark.parametrize(
    ("values", "call"),
    [({}, "_gpuprov_cuda_login ''"), ({"default": "12.1"}, "_gpuprov_cuda_login 12.1")],
)
def test_the_default_stands_in_the_login_file_alone(values: dict[str, Any], call: str) -> None:
    found = declared(**values)
    assert call in text(found["file:/etc/profile.d/zzz-cuda-switch.sh"])
    plain = declared()
    assert {id_ for id_ in found if text_or_none(found[id_]) != text_or_none(plain[id_])} <= {
        "file:/etc/profile.d/zzz-cuda-switch.sh"
    }


def text_or_none(resource: Resource[Any]) -> str | None:
    return None if isinstance(resource, Directory) else text(resource)


@pytest.mark.parametrize("name", ["12", "12.1.0", "cuda-12.1", "''", "12.x", "$(id)", '"12.1\\n"', "none", "[12.1]"])
def test_a_default_that_is_no_toolkit_is_told_where_it_stands(name: str) -> None:
    with pytest.raises(InputError, match="parameter 'default'") as caught:
        bound(f"toolkits: /opt\ndefault: {name}")
    assert caught.value.problems[0].position == Position("p.yaml", 2, 10)
    assert name == "[12.1]" or "a toolkit is named X.Y, such as 12.1" in str(caught.value)


def test_a_version_is_text() -> None:
    assert bound("default: 11.0") == {"default": "11.0"}
    assert bound("default:") == {"default": None}


@pytest.mark.parametrize("folder", ["cuda", "./x", "/opt/a:b", "/opt/\n"])
def test_a_folder_that_cannot_be(folder: str) -> None:
    with pytest.raises(ValueError, match="toolkits must"):
        declared(toolkits=folder)


def test_the_shell_code_is_clean(tmp_path: Path) -> None:
    for number, resource in enumerate(declared(toolkits="/opt/a b", default="12.1").values()):
        if not isinstance(resource, Directory):
            (tmp_path / f"{number}.sh").write_text(text(resource))
    done = subprocess.run(
        # What a file sources is on the host, and what it sets is for that.
        ["shellcheck", "--shell=sh", "--exclude=SC1091,SC2034,SC2317", *map(str, tmp_path.iterdir())],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
