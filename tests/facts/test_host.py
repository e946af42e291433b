"""Facts as roles and templates see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jinja2
import pytest

from gpuprov.errors import InputError
from gpuprov.facts import FACT_FIELDS, Facts, parse, summary
from gpuprov.model import Id, Paths, Resource
from tests.facts.wire import RENTED, driver, output, rented


@dataclass(frozen=True, kw_only=True)
class Toolkit(Resource[str]):
    kind: ClassVar[str] = "cuda-toolkit"
    version: str

    @property
    def id(self) -> Id:
        return Id(f"{self.kind}:{self.version}")


@dataclass(frozen=True, kw_only=True)
class Env(Resource[str]):
    kind: ClassVar[str] = "conda-env"


OLD, NEW = Toolkit(version="11.7"), Toolkit(version="12.1")


def host(*toolkits: Toolkit) -> Facts:
    return parse(rented()).seen_as(name="gpu1", declared={toolkit.id: toolkit for toolkit in toolkits})


def test_a_declared_resource_is_found_by_class_and_name() -> None:
    found: Toolkit = host(OLD, NEW).declared(Toolkit, "11.7")
    assert found is OLD
    assert host(NEW).declared(Toolkit) is NEW


def test_what_is_declared_while_a_role_runs_is_seen() -> None:
    declared: dict[Id, Resource[str]] = {}
    facts = parse(b"").seen_as(name="gpu1", declared=declared)
    declared[OLD.id] = OLD
    assert facts.declared(Toolkit) is OLD


@pytest.mark.parametrize(
    ("toolkits", "name", "says"),
    [
        ((), "11.7", ["cuda-toolkit:11.7", "gpu1", "put a role that declares a Toolkit first"]),
        ((NEW,), "11.7", ["cuda-toolkit:11.7", "declared are: cuda-toolkit:12.1"]),
        ((OLD, NEW), None, ["several cuda-toolkit", "cuda-toolkit:11.7, cuda-toolkit:12.1"]),
    ],
)
def test_a_missing_or_ambiguous_one_is_named(toolkits: tuple[Toolkit, ...], name: str | None, says: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        host(*toolkits).declared(Toolkit, name)
    assert all(words in str(caught.value) for words in says)


def test_another_class_is_not_it() -> None:
    with pytest.raises(InputError):
        host(OLD).declared(Env, "11.7")


def test_what_the_inventory_says_is_carried_and_what_was_declared_is_no_part_of_equality() -> None:
    facts = parse(rented())
    seen = facts.seen_as(name="gpu1", groups=("gpu",), paths=Paths(state="/s"), expected_gpu="RTX 4070")
    assert (seen.name, seen.groups, seen.paths.state, seen.expected_gpu) == ("gpu1", ("gpu",), "/s", "RTX 4070")
    assert facts.seen_as(name="x").paths == facts.paths
    assert host(OLD) == host(NEW)
    assert "11.7" not in repr(Facts().seen_as(name="x", declared={OLD.id: OLD}))


def test_the_top_level_names_for_conditions() -> None:
    assert {"name", "groups", "paths", "expected_gpu", "os", "driver", "gpus", "protected", "unseen"} <= FACT_FIELDS
    assert not any(name.startswith("_") for name in FACT_FIELDS)
    assert "declared" not in FACT_FIELDS


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ facts.os.id }} {{ facts.driver.version }}", "ubuntu 535.104.05"),
        ("{{ facts.gpus | length }}", "1"),
        ("{{ facts.tools.flock }}", "/usr/bin/flock"),
        ("{{ 'apt-get' in facts.tools }}", "False"),
        ("{{ facts.gpus[0].sm }}", "sm_89"),
        ("{{ facts.toolkits | selectattr('ours') | map(attribute='version') | join(' ') }}", "11.7"),
        ("{{ facts.mount_of('/tmp').noexec }}", "True"),
    ],
)
def test_names_serve_in_templates(template: str, text: str) -> None:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    assert environment.from_string(template).render(facts=parse(rented())) == text


def test_a_host_at_a_glance() -> None:
    assert dict(summary(parse(rented()))) == {
        "system": "Ubuntu 22.04.3 LTS, x86_64, glibc 2.35, container (docker), init bash, as root",
        "GPU": "1 x NVIDIA GeForce RTX 4070 (12 GiB, sm_89, Ada Lovelace)",
        "driver": "535.104.05 (runs CUDA up to 12.2)",
        "toolkits": "12.1 (/usr/local/cuda-12.1, /usr/local/cuda -> it), 11.7 (/usr/local/cuda-11.7, ours), "
        "10.1 (/usr/local/cuda-10.1), 13.0 (/usr/local/cuda-13.0, no compiler), /usr/local/cuda-9 -> nowhere",
        "gcc": "11.4.0 (gcc), 9.5.0 (gcc-9, no g++)",
        "conda": "/root/miniconda3 (23.5.2); environments: train (3.10.13), main (3.12.3)",
        "cpu, memory": "16 cores of 128, 120 GiB, /dev/shm 64 MiB",
        "disk": "/ 10 GiB free of 30 GiB, /tmp 0 MiB free of 0 MiB, noexec, /root/autodl-fs (network)",
        "services": "jupyter, sshd",
    }


def test_what_is_not_known_is_said_so_at_a_glance() -> None:
    lines = dict(summary(parse(b"")))
    for label in ("GPU", "driver", "toolkits", "gcc", "conda", "disk", "services"):
        assert lines[label] == "not known", label
    assert "driver: the output ended before it" in lines["unseen"]
    nothing = dict(summary(parse(output({"driver": [("pci-bus", "yes"), ("smi-path", "")]}))))
    assert (nothing["GPU"], nothing["driver"], nothing["toolkits"], nothing["gcc"]) == ("none",) * 4


def test_equal_gpus_are_counted_and_lost_ones_are_not_forgotten() -> None:
    query = next(r for r in RENTED["driver"] if r[0] == "smi-query")
    row = "{}, NVIDIA A100-SXM4-80GB, GPU-{}, 81920, 550.54.15, 00000000:0{}:00.0, 8.0, {}"
    text = "Unable to determine the device handle for GPU3: 0000:34:00.0: Unknown Error\n" + "\n".join(
        [row.format(0, 0, 1, "Disabled"), row.format(1, 1, 2, "Disabled"), row.format(2, 2, 3, "Enabled")]
    )
    lines = dict(summary(parse(rented(driver=driver((*query[:3], text))))))
    model = "NVIDIA A100-SXM4-80GB (80 GiB, sm_80, Ampere"
    assert lines["GPU"] == f"2 x {model}), 1 x {model}, MIG); 1 lost"
