"""The page on writing playbooks: its example is taken as it stands, and shows every key that there is."""

from __future__ import annotations

import re
from pathlib import Path

from gpuprov.engine import Options, check_playbook
from gpuprov.inventory import load_inventory
from gpuprov.playbook import load_playbook
from gpuprov.playbook.load import _ENTRY_KEYS, _PLAY_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "playbooks.md"


def test_its_example_is_right_and_whole(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    (tmp_path / "p.yaml").write_text(found[1])
    (tmp_path / "h.yaml").write_text("hosts: {gpu1: , gpu3: }\ngroups: {train: {hosts: [gpu1, gpu3]}}\n")
    playbook, inventory = load_playbook(tmp_path / "p.yaml"), load_inventory([tmp_path / "h.yaml"])
    checked = check_playbook(playbook, inventory, None, Options())
    assert [host.name for host in checked.hosts] == ["gpu1"]
    assert len(checked.plays[0].entries) == 3
    for key in (*_PLAY_KEYS, *_ENTRY_KEYS):
        assert re.search(rf"^[ -]*{key}:", found[1], re.MULTILINE), key
