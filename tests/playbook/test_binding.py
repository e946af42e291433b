"""A value that does not fit is named as a playbook's author counts: from one, and by its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.errors import InputError, Position
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

ROLE = """
from gpuprov.facts import Facts
from gpuprov.role import role

@role
def lists(host: Facts, *, ports: list[int] = [], limits: dict[str, int] = {}, rows: dict[str, list[int]] = {}):
    \"\"\"Lists.\"\"\"
    yield from ()
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ports: x", "parameter 'ports': expected"),
        ("ports: [80, x]", "parameter 'ports', item 2: expected"),
        ("limits: {a: x}", "parameter 'limits', key 'a': expected"),
        ("rows: {a: [1, 2, x]}", "parameter 'rows', key 'a', item 3: expected"),
    ],
)
def test_where_in_a_parameter_a_value_is_wrong(text: str, says: str, tmp_path: Path) -> None:
    folder = tmp_path / "roles" / "lists"
    folder.mkdir(parents=True)
    (folder / "role.py").write_text(ROLE)
    params = loads(text, "p.yaml")
    assert isinstance(params, Mapping)
    with pytest.raises(InputError) as caught:
        bind(SearchPath.beside(tmp_path / "p.yaml").find("lists"), params, Position("p.yaml", 1, 1))
    (problem,) = caught.value.problems
    assert problem.message.startswith(f"role 'lists', {says}")
