"""What the test of the main job and the demo share: the shipped playbook with a small package, and a conda."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.lab.hosts import Host

ROOT = Path(__file__).parents[2]


def legacy_playbook(folder: Path, sdist_url: str, sha256: str) -> Path:
    """The shipped playbook, with the small extension in the place of flash-attention."""
    plays = yaml.load((ROOT / "playbooks" / "legacy-torch113.yaml").read_text(), Loader=yaml.BaseLoader)
    (flash,) = [role for role in plays[0]["roles"] if role["role"] == "flash_attention"]
    flash["with"] |= {
        "package": "mini-attn",
        "module": "mini_attn",
        "version": "0.1.0",
        "sdist_url": sdist_url,
        "sdist_sha256": sha256,
    }
    (acceptance,) = [role for role in plays[0]["roles"] if role["role"] == "acceptance"]
    acceptance["with"] |= {"module": "mini_attn"}
    path = folder / "legacy.yaml"
    path.write_text(yaml.safe_dump(plays, sort_keys=False))
    return path


def give_conda(a: Host, b: Host) -> None:
    """Put the lab's conda onto the host that has none, as somebody who unpacked a Miniforge would have."""
    text = a.exec("cat /root/miniconda3/bin/conda").stdout
    text = text.replace("#!/root/miniconda3/bin/python", "#!/usr/bin/python3", 1)
    text = text.replace('ROOT = "/root/miniconda3"', 'ROOT = "/opt/conda"', 1)
    b.exec("mkdir -p /opt/conda/bin /opt/conda/conda-meta && cat >/opt/conda/bin/conda", stdin=text)
    b.exec("cd /opt/conda && chmod 755 bin/conda && ln -s /usr/bin/python3 bin/python && touch conda-meta/history")
