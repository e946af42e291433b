"""The main job on hosts of both shapes: real torch 1.13.1 on CUDA 11.7, and a CUDA extension really compiled.

The extension is a small package with flash-attention's build interface: the real one takes twenty minutes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.e2e.command import Command, Result, from_runfile, hosts_of, write_inventory
from tests.e2e.legacy import give_conda, legacy_playbook
from tests.lab.cuda.runfiles import Runfile
from tests.lab.cuda.site import DownloadSite
from tests.lab.engine import pip_cache
from tests.lab.fsdigest import VOLATILE, Snapshot, snapshot, written
from tests.lab.hosts import Host
from tests.lab.lab import Lab
from tests.lab.mini_attn.make_sdist import make
from tests.lab.prober import Prober, deep_faults

ENV = "/srv/envs/torch113"
SITE = f"{ENV}/lib/python3.10/site-packages"
TOOLKIT = "/usr/local/cuda-11.7"
AUDIT = """
readlink -f /usr/local/cuda /etc/alternatives/gcc
gcc -dumpversion
cat /etc/ld.so.conf.d/* | sha256sum
"""
KERNEL = "/root/.local/share/jupyter/kernels/torch113"
EDITED = {"/etc/bash.bashrc", "/etc/zsh/zprofile", "/etc/zsh/zshrc"}
MADE = re.compile(
    rf"(?:{TOOLKIT}|{ENV}|{KERNEL}|/srv/cache|/usr/local/lib/gpuprov|/var/lib/gpuprov)(?:/.*)?"
    r"|/usr/local/bin/cuda-(?:env|run|list|use)|/etc/profile\.d/(?:zzz-)?cuda-switch\.sh"
    r"|/srv/envs|/root/\.local/share/jupyter/kernels|/root/\.conda(?:/environments\.txt)?"
)
"""What the plan names, with all below it, and the folders that these stand in. /var/lib/gpuprov is gpuprov's own; in
its environments.txt conda itself writes down what it made."""
APT_STATE = re.compile(
    r"/var/(?:lib|cache)/(?:dpkg|apt|debconf)(?:/.*)?|/var/log/(?:apt(?:/.*)?|dpkg\.log|alternatives\.log)"
    r"|/etc/ld\.so\.cache|/var/cache/ldconfig/aux-cache"
)


@dataclass
class Story:
    hosts: tuple[Host, Host]
    command: Command
    playbook: str
    first: Result
    second: Result
    before: Mapping[str, Snapshot]
    planned: Mapping[str, Snapshot]
    after: Mapping[str, Snapshot]
    again: Mapping[str, Snapshot]
    packages: Mapping[str, set[str]]
    audit: Mapping[str, str]
    probers: Mapping[str, Prober]


def look(hosts: tuple[Host, ...]) -> dict[str, Snapshot]:
    # Not the host's own: pip's downloads, which are this machine's and lent to both, and the Pythons that the lab's
    # conda makes environments of. A real conda would put them into the environment; here they write their bytecode.
    beside = (*VOLATILE, "/srv/cache/pip", "/opt/lab/python")
    with ThreadPoolExecutor() as pool:
        shots = pool.map(lambda host: snapshot(host, beside, content=False), hosts)
        return {host.name: shot for host, shot in zip(hosts, shots, strict=True)}


def packages(host: Host) -> set[str]:
    return set(host.exec("dpkg-query -W -f '${Package}:${Architecture} ${Version}\\n'").stdout.splitlines())


@pytest.fixture(scope="module")
def story(
    lab: Lab, cuda_site: DownloadSite, real_runfile_117: Runfile, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("legacy")
    sdist, sha256 = make(folder)
    url = cuda_site.serve(f"/sdists/{sdist.name}", sdist.read_bytes())
    hosts = tuple(lab.start(shape, volumes=[f"{pip_cache()}:/srv/cache/pip"]) for shape in "ab")
    try:
        give_conda(hosts[0], hosts[1])
        # As on an instance that was started without its card: nothing here computes
        for host in hosts:
            host.set_gpu(MODE="no-gpu-boot")
        entries = {name: {**entry, "gpu": "RTX 4070"} for name, entry in hosts_of(*hosts).items()}
        variables = from_runfile(real_runfile_117)
        paths = {"envs": "/srv/envs", "cache": "/srv/cache"}
        command = Command(write_inventory(folder / "hosts.yaml", entries, vars=variables, paths=paths))
        play = str(legacy_playbook(folder, url, sha256))
        audit = {h.name: h.exec(AUDIT).stdout for h in hosts}
        installed = {h.name: packages(h) for h in hosts}
        before = look(hosts)
        plan = command("plan", play)
        assert plan.code == 0, plan.out[-6000:]
        planned = look(hosts)
        probers = {h.name: Prober(h) for h in hosts}
        for prober in probers.values():
            prober.__enter__()
        first = command("apply", play, timeout=900)
        after = look(hosts)
        second = command("apply", play)
        again = look(hosts)
        for prober in probers.values():
            prober.__exit__()
        yield Story(
            (hosts[0], hosts[1]), command, play, first, second, before, planned, after, again, installed, audit, probers
        )
    finally:
        for host in hosts:
            lab.remove(host)


def test_it_is_made_and_made_once(story: Story) -> None:
    assert story.first.code == 0, story.first.out[-6000:]
    assert story.second.code == 0
    for host in story.hosts:
        assert story.second.changed(host.name) == set()
        assert story.second.ended(host.name)["exchanges"] == 2


def test_the_plan_alone_touches_nothing(story: Story) -> None:
    for host in story.hosts:
        assert not written(story.before[host.name], story.planned[host.name])


def test_the_file_system_differs_exactly_where_the_plan_said(story: Story) -> None:
    for host in story.hosts:
        change = written(story.before[host.name], story.after[host.name])
        came = packages(host) - story.packages[host.name]
        assert not story.packages[host.name] - packages(host), "a package was removed or replaced"
        assert {name.split(":")[0] for name in came} >= {"gcc-11", "g++-11"}
        names = " ".join(name.split()[0] for name in came)
        # Debian's / has /lib as a link: dpkg lists some files by their old place
        shipped = {
            re.sub(r"^/(lib|lib64|bin|sbin)/", r"/usr/\1/", p) for p in host.exec(f"dpkg -L {names}").stdout.split("\n")
        }
        assert not change.removed
        assert {p for p in change.added if not MADE.fullmatch(p) and not APT_STATE.fullmatch(p)} - shipped == set()
        assert {p for p in change.changed if not APT_STATE.fullmatch(p)} == EDITED


def test_again_not_one_file_is_written(story: Story) -> None:
    for host in story.hosts:
        assert not written(story.after[host.name], story.again[host.name]).outside("/var/lib/gpuprov")


def test_torch_and_torchvision_are_the_wanted_ones(story: Story) -> None:
    for host in story.hosts:
        modules = "import torch as t, torchvision as v, numpy as n"
        script = f"{modules}; print(t.__version__, t.version.cuda, v.__version__, n.__version__)"
        said = host.ssh(f"{ENV}/bin/python -c '{script}'", timeout=120).stdout.split()
        assert said[:3] == ["1.13.1+cu117", "11.7", "0.14.1+cu117"] and said[3].startswith("1.")


def test_the_extension_was_compiled_by_gcc_11_for_the_card_and_loads(story: Story) -> None:
    for host in story.hosts:
        (library,) = host.exec(f"find {SITE} -name 'mini_attn*.so'").stdout.split()
        assert "GCC: (Debian 11" in host.exec(f"readelf -p .comment {library}").stdout
        code = host.exec(f"{TOOLKIT}/bin/cuobjdump --list-elf {library}").stdout
        assert "sm_80" in code or "sm_86" in code, code
        said = host.ssh(f"{ENV}/bin/python -c 'import torch, mini_attn; print(mini_attn.__file__)'", timeout=120)
        assert SITE in said.stdout, said.stderr


def test_the_default_compiler_and_cuda_are_as_they_were(story: Story) -> None:
    for host in story.hosts:
        assert host.exec(AUDIT).stdout == story.audit[host.name]
        story.probers[host.name].assert_green()
        assert deep_faults(host) == {}


def test_the_running_jupyter_offers_the_environment(story: Story) -> None:
    for host in story.hosts:
        kernel = json.loads(host.exec("cat /root/.local/share/jupyter/kernels/torch113/kernel.json").stdout)
        assert kernel["argv"][0] == f"{ENV}/bin/python" and kernel["env"]["CUDA_HOME"] == TOOLKIT


def test_acceptance_tells_each_layer(story: Story) -> None:
    for host in story.hosts:
        told = {e["id"]: (e["outcome"], e["because"]) for e in story.second.of("node-ended", host=host.name)}
        checks = {
            id_: words for id_, (outcome, words) in told.items() if id_.startswith("check:") and outcome == "same"
        }
        assert set(checks) == {"check:nvidia-smi", "check:nvcc:11.7", "check:containers", f"check:torch:{ENV}"}
        assert "11.7" in checks["check:nvcc:11.7"] and "1.13.1" in checks[f"check:torch:{ENV}"]
        # the lab has no card that computes: what needs one is pending, and says why
        assert "pending GPU" in checks[f"check:torch:{ENV}"]


def test_verify_tells_the_same_of_what_is_there_already(story: Story) -> None:
    result = story.command("plan", "playbooks/verify.yaml", "-e", "env=torch113", "-e", "cuda=11.7")
    assert result.code == 0, result.out
    for host in story.hosts:
        (line,) = result.of("plan-line", host=host.name, id=f"check:torch:{ENV}")
        assert line["verdict"] == "same" and "torch 1.13.1+cu117" in line["after"]


UNDONE = {
    "a package downgraded": (f"{ENV}/bin/python -m pip install -q numpy==1.26.3", "numpy"),
    "the kernel removed": ("rm /root/.local/share/jupyter/kernels/torch113/kernel.json", "kernel.json"),
    "the compiled library removed": (f"find {SITE} -name 'mini_attn*.so' -delete", "mini-attn"),
}


@pytest.mark.parametrize("case", UNDONE)
def test_what_is_undone_by_hand_is_all_that_the_next_apply_changes(story: Story, case: str) -> None:
    script, expected = UNDONE[case]
    for host in story.hosts:
        host.exec(script, timeout=120)
    result = story.command("apply", story.playbook, timeout=600)
    assert result.code == 0, result.out[-4000:]
    for host in story.hosts:
        (changed,) = result.changed(host.name)
        assert expected in changed


def test_without_the_compiler_the_error_says_so(story: Story) -> None:
    host = story.hosts[0]
    host.exec(
        f"find {SITE} -name 'mini_attn*.so' -delete; mv /srv/cache/wheels /srv/wheels.away; "
        "mv /usr/bin/g++-11 /usr/bin/g++-11.away"
    )
    try:
        result = story.command("apply", story.playbook, "-l", host.name, timeout=600)
    finally:
        host.exec(
            "mv /usr/bin/g++-11.away /usr/bin/g++-11; rm -rf /srv/cache/wheels; mv /srv/wheels.away /srv/cache/wheels"
        )
    assert result.code == 1
    (failed,) = [e for e in result.of("node-ended", host=host.name) if e["outcome"] == "failed"]
    assert "mini-attn" in failed["id"] and "g++-11" in f"{failed['error']['message']} {failed['error']['output']}"
    assert story.command("apply", story.playbook, "-l", host.name, timeout=600).code == 0
