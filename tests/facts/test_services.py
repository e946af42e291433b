"""Command lines as they were seen on rented hosts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.facts.services import kind_of


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("/root/miniconda3/bin/python /root/miniconda3/bin/jupyter-lab --allow-root --config=/init/c.py", "jupyter"),
        ("python -m jupyter lab --allow-root --port=8888", "jupyter"),
        ("/usr/bin/python3.12 -m jupyterlab", "jupyter"),
        ("python3 -I -m notebook", "jupyter"),
        ("/venv/main/bin/jupyter lab", "jupyter"),
        ("/venv/main/bin/jupyter --port=1", "jupyter"),
        ("/venv/main/bin/jupyter nbconvert x.ipynb", None),
        ("/root/miniconda3/bin/python /root/miniconda3/bin/tensorboard --host 0.0.0.0 --port 6006", "tensorboard"),
        ("/usr/bin/python -m tensorboard.main --logdir x", "tensorboard"),
        ("/x/tensorboard_data_server/bin/server --logdir=x", None),
        ("python -m ipykernel_launcher -f /root/.local/share/jupyter/runtime/kernel-1.json", None),
        ("/usr/bin/python3 /usr/bin/supervisord -n", "supervisord"),
        ("/bin/supervisord -c /init/supervisor/supervisor.ini", "supervisord"),
        ("/usr/sbin/sshd -D", "sshd"),
        ("bash /opt/supervisor-scripts/jupyter.sh", None),
        ("python train.py --log tensorboard", None),
        ("vim jupyter-lab", None),
        ("python", None),
        ("python -m", None),
        ("caddy run", "caddy"),
    ],
)
def test_a_command_line(line: str, kind: str | None) -> None:
    assert kind_of(tuple(line.split())) == kind


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", "sshd"),
        ("sshd: root@notty", None),
        ("nginx: master process /usr/sbin/nginx", "nginx"),
        ("nginx: worker process", None),
    ],
)
def test_a_rewritten_command_line(title: str, kind: str | None) -> None:
    assert kind_of((title,)) == kind


@given(st.lists(st.text()))
def test_any_words(words: list[str]) -> None:
    kind_of(tuple(words))
