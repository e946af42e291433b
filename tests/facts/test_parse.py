"""From the script's output to facts: what is there, what is absent, and what could not be seen."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprov.facts import Conda, Env, Facts, Gcc, Gpu, Pci, Python, compare_protected, parse, summary, to_json
from gpuprov.facts.records import GROUPS
from tests.facts.wire import PID1, RENTED, SMI_FIELDS, Lines, driver, output, rented

GIB = 2**30


def test_a_rented_container_is_read_whole() -> None:
    facts = parse(rented())
    assert facts.unseen == ()
    assert facts.hostname == "autodl-container-1a2b3c4d5e-6f708192"
    assert (facts.user.name, facts.user.uid, facts.user.home, facts.user.shell) == ("root", 0, "/root", "/bin/bash")
    assert (facts.os.id, facts.os.version, facts.os.codename) == ("ubuntu", "22.04", "jammy")
    assert (facts.os.name, facts.os.like) == ("Ubuntu 22.04.3 LTS", ("debian",))
    assert (facts.arch, facts.kernel, facts.glibc, facts.clock) == ("x86_64", "5.15.0-86-generic", "2.35", 1796000000)
    assert (facts.boot.id, facts.boot.pid1_start) == ("11111111-2222-3333-4444-555555555555", 19)
    assert facts.boot.uptime == 3600.25
    assert (facts.init, facts.virtual) == ("bash", "QEMU Standard PC")
    assert (facts.container.kind, facts.container.env) == ("docker", ("PATH", "AutoDLContainerUUID"))
    assert (facts.paths.state, facts.paths.toolkits) == ("/var/lib/gpuprov", "/usr/local")
    assert (facts.paths.envs, facts.paths.cache) == ("/root/envs", "")
    assert (facts.cpu.count, facts.cpu.limit, facts.cpu.usable) == (128, 16.0, 16)
    assert (facts.memory.total, facts.memory.limit, facts.memory.usable) == (528000000 * 1024, 120 * GIB, 120 * GIB)
    assert facts.memory.shm == 16384 * 4096
    assert facts.tools == {"sh": "/usr/bin/sh", "flock": "/usr/bin/flock"}
    assert facts.gcc == (
        Gcc(name="gcc", path="/usr/bin/gcc", version="11.4.0", cxx="/usr/bin/g++"),
        Gcc(name="gcc-9", path="/usr/bin/gcc-9", version="9.5.0"),
    )
    assert facts.pythons == (Python(path="/usr/bin/python3", real="/usr/bin/python3.10"),)
    assert facts.conda == (Conda(path="/root/miniconda3", version="23.5.2"),)
    assert facts.envs == (
        Env(path="/root/miniconda3/envs/train", kind="conda", python="3.10.13", ours=True),
        Env(path="/venv/main", kind="venv", python="3.12.3"),
    )


def test_mounts_have_sizes_only_where_they_may_be_touched() -> None:
    facts = parse(rented())
    mounts = {mount.path: mount for mount in facts.mounts or ()}
    assert list(mounts) == ["/", "/tmp", "/root/autodl-fs", "/data disk", "/dev/shm"]
    root = mounts["/"]
    assert (root.size, root.free, root.inodes, root.inodes_free) == (30 * GIB, 10 * GIB, 1000, 900)
    assert mounts["/tmp"].noexec
    assert mounts["/tmp"].inodes is None  # a file system that counts none
    assert (mounts["/root/autodl-fs"].network, mounts["/root/autodl-fs"].size) == (True, None)
    assert facts.mount_of("/root/autodl-fs/x") == mounts["/root/autodl-fs"]
    assert facts.mount_of("/root/autodl-fs2") == root
    assert facts.mount_of("/") == root


def test_the_last_of_two_mounts_at_one_place_counts() -> None:
    twice: Lines = [
        ("mount", "/", "a", "ext4", "rw", "local"),
        ("mount", "/w", "b", "ext4", "rw", "local"),
        ("mount", "/w", "c", "ext4", "rw", "local"),
    ]
    mount = parse(rented(mounts=twice)).mount_of("/w/x")
    assert mount is not None
    assert mount.device == "c"


def test_toolkits_say_what_told_their_version() -> None:
    found = [
        (t.path, t.version, t.told_by, t.link, t.dangling, t.ours, t.compiler) for t in parse(rented()).toolkits or ()
    ]
    assert found == [
        ("/usr/local/cuda", "12.1", "version.json", True, False, False, True),
        ("/usr/local/cuda-12.1", "12.1", "version.json", False, False, False, True),
        ("/usr/local/cuda-11.7", "11.7", "version.json", False, False, True, True),
        ("/usr/local/cuda-10.1", "10.1", "version.txt", False, False, False, True),
        ("/usr/local/cuda-13.0", "13.0", "cuda.h", False, False, False, False),
        ("/usr/local/cuda-9", None, "", True, True, False, False),
    ]


def test_services_are_told_from_what_only_mentions_them() -> None:
    services = parse(rented()).services or ()
    assert [(s.kind, s.pid, s.start, s.exe) for s in services] == [
        ("jupyter", 812, 19, "/root/miniconda3/bin/python3.10"),
        ("sshd", 90, 19, ""),
    ]


def test_the_gpu_and_its_driver() -> None:
    facts = parse(rented())
    assert facts.gpus == (
        Gpu(
            index=0,
            name="NVIDIA GeForce RTX 4070",
            uuid="GPU-1",
            memory_mib=12282,
            compute_cap="8.9",
            bus_id="00000000:01:00.0",
            mig=False,
        ),
    )
    assert (facts.gpus[0].sm, facts.gpus[0].arch, facts.gpus[0].vgpu) == ("sm_89", "Ada Lovelace", False)
    d = facts.driver
    assert (d.version, d.module, d.flavour, d.cuda, d.answer) == ("535.104.05", "535.104.05", "closed", "12.2", "ok")
    assert (d.pci or ())[0] == Pci(address="0000:01:00.0", class_code="0x030000", device="0x2786", driver="nvidia")
    assert [p.is_gpu for p in d.pci or ()] == [True, False]
    library = (d.libcuda or ())[0]
    assert (library.version, library.cached, library.empty, library.stub) == ("535.104.05", True, False, False)


def test_an_old_driver_without_capability_is_helped_out_by_the_table() -> None:
    fields = "index,name,uuid,memory.total,driver_version,pci.bus_id"
    row = "0, GRID A100-40C, GPU-1, 40960, 470.182.03, 00000000:02:01.0"
    gpu = (parse(rented(driver=driver(("smi-query", "0", fields, row)))).gpus or ())[0]
    assert (gpu.compute_cap, gpu.vgpu, gpu.mig, gpu.arch) == ("8.0", True, None, "Ampere")


def test_a_card_off_the_bus_leaves_the_others_and_is_named() -> None:
    text = (
        "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
        "0, NVIDIA A10, GPU-1, 23028, 550.54.15, 00000000:33:00.0, 8.6, [N/A]"
    )
    facts = parse(rented(driver=driver(("smi-query", "0", SMI_FIELDS, text))))
    assert [gpu.name for gpu in facts.gpus or ()] == ["NVIDIA A10"]
    assert facts.driver.lost == ("0000:34:00.0",)
    assert facts.unseen == ("gpus: a GPU no longer answers (0000:34:00.0)",)


def test_the_table_serves_when_the_question_was_not_understood() -> None:
    table = (
        "| NVIDIA-SMI 418.67    Driver Version: 418.67    CUDA Version: 10.1     |\n"
        "|   0  Tesla T4            On   | 00000000:00:1E.0 Off |                    0 |\n"
        "| N/A   41C    P0    26W /  70W |      0MiB / 15079MiB |      0%      Default |\n"
    )
    records = driver(
        ("smi-query", "2", "index,name", 'Field "index" is not a valid field to query.'), ("smi-table", "0", table)
    )
    facts = parse(rented(driver=records))
    assert facts.gpus == (
        Gpu(index=0, name="Tesla T4", memory_mib=15079, compute_cap="7.5", bus_id="00000000:00:1E.0"),
    )
    assert facts.unseen == ()


@pytest.mark.parametrize(
    ("rc", "text", "answer", "gpus", "unseen"),
    [
        ("timeout", "", "timed-out", None, "nvidia-smi did not answer within 10 s; 1 on the PCI bus"),
        ("137", "", "timed-out", None, "nvidia-smi did not answer within 10 s; 1 on the PCI bus"),
        ("0", "No devices were found", "no-devices", (), None),
        ("0", "\x00\x01 what", "unreadable", None, "nvidia-smi answered something else; 1 on the PCI bus"),
        (
            "18",
            "Failed to initialize NVML: Driver/library version mismatch",
            "version-mismatch",
            None,
            "the driver's libraries and its loaded module differ in version; 1 on the PCI bus",
        ),
    ],
)
def test_a_failing_nvidia_smi_is_unseen_and_not_absent(
    rc: str, text: str, answer: str, gpus: tuple[Gpu, ...] | None, unseen: str | None
) -> None:
    facts = parse(rented(driver=driver(("smi-query", rc, SMI_FIELDS, text), ("smi-table", rc, text))))
    assert facts.driver.answer == answer
    assert facts.gpus == gpus
    assert facts.unseen == ((f"gpus: {unseen}",) if unseen else ())
    assert facts.driver.version == "535.104.05"  # the kernel said so


def test_a_host_without_a_gpu_has_none_for_certain() -> None:
    facts = parse(rented(driver=[("pci-bus", "yes"), ("smi-path", "")]))
    assert (facts.gpus, facts.driver.version, facts.driver.cuda, facts.unseen) == ((), "", "", ())


@pytest.mark.parametrize(
    "records",
    [
        [("smi-path", "")],  # no PCI bus to look at
        [("pci-bus", "yes"), ("pci", "0000:01:00.0", "0x030200", "0x2330", ""), ("smi-path", "")],
    ],
)
def test_without_nvidia_smi_and_without_proof_nothing_is_certain(records: Lines) -> None:
    facts = parse(rented(driver=records))
    assert (facts.gpus, facts.driver.version) == (None, None)
    assert facts.unseen[0].startswith("gpus: there is no nvidia-smi")


def test_protected_is_flat_and_keyed_by_what_it_is() -> None:
    assert parse(rented()).protected == {
        "service:jupyter": "pid 812 since tick 19",
        "service:sshd": "pid 90 since tick 19",
        "link:/usr/local/cuda": "/usr/local/cuda-12.1",
        "file:/etc/ld.so.conf": "ab" * 32,
        "apt:python3:amd64": "ii 3.10.6-1~22.04",
        "apt:libprotobuf23:amd64": "hi 3.12.4-1ubuntu7",
        "python:/usr/lib/python3/dist-packages:protobuf": "4.25.3 0123456789abcdef",
        "python:/usr/lib/python3/dist-packages:pyyaml": "6.0 fedcba9876543210",
        "conda:/root/miniconda3:ca-certificates": "2023.05.30-h06a4308_0",
    }


def test_two_versions_of_one_package_are_both_kept() -> None:
    records: Lines = [
        ("site", "/s", "2"),
        ("dist", "a" * 16, "protobuf-4.25.3.dist-info"),
        ("dist", "b" * 16, "protobuf-3.20.0.dist-info"),
    ]
    assert parse(rented(protected=records, services=[])).protected == {
        "python:/s:protobuf": f"3.20.0 {'b' * 16}, 4.25.3 {'a' * 16}"
    }


def test_a_site_read_in_part_says_so() -> None:
    records: Lines = [("site", "/s", "2"), ("dist", "a" * 16, "six-1.0.dist-info"), ("site", "/t", "0")]
    protected = parse(rented(protected=records, services=[])).protected
    assert protected["python:/s"] == "unseen: 1 of 2 packages could be read"
    assert "python:/t" not in protected


def test_packages_that_could_not_be_asked_for_are_a_hole_and_not_gone() -> None:
    protected: Lines = [record for record in RENTED["protected"] if record[0] != "dpkg"]
    after = parse(rented(protected=[*protected, ("unseen", "packages", "dpkg-query did not answer")])).protected
    kinds = {difference.kind for difference in compare_protected(parse(rented()).protected, after)}
    assert kinds == {"unseen"}


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_is_missing_is_unseen_by_name(group: str) -> None:
    facts = parse(output(RENTED, leave_out=(group,)))
    assert facts.unseen[0] == f"{group}: the output ended before it"


def test_absent_and_unseen_are_told_apart_in_every_list() -> None:
    lists = ("mounts", "gcc", "pythons", "toolkits", "conda", "envs", "services", "tools")
    empty, nothing = parse(output({})), parse(b"")
    assert [getattr(empty, name) for name in lists] == [()] * 7 + [{}]
    assert [getattr(nothing, name) for name in lists] == [None] * 8
    assert set(nothing.protected) == {"*", "service"}


def test_the_host_says_itself_what_it_could_not_see() -> None:
    services: Lines = [("unseen", "services", "no tr here")]
    container: Lines = [("unseen", "environment of PID 1", "not readable by this user"), ("hint", "/.dockerenv")]
    protected: Lines = [
        ("unseen", "packages in /s", "not readable by this user"),
        ("sum", "unseen: no sha256sum", "/f"),
    ]
    facts = parse(rented(services=services, container=container, protected=protected))
    assert facts.services is None
    assert (facts.container.kind, facts.container.env) == ("docker", None)
    assert facts.protected["file:/f"] == "unseen: no sha256sum"
    assert facts.protected["packages in /s"] == "unseen: not readable by this user"
    assert "services: no tr here" in facts.unseen


def test_the_middle_of_the_output_cut_out_costs_only_the_groups_it_hits() -> None:
    whole = rented()
    start = whole.index(b"tool\tflock")
    end = whole.index(b"service\t90")
    facts = parse(whole[:start] + whole[end:])
    # one record is left of tools, two of services, and services has an end mark for three
    assert facts.unseen == (
        "services: lines of another one stand in it",
        "tools: the output ended before it",
        "toolkits: the output ended before it",
    )
    assert facts.services is None
    assert facts.tools is None
    assert facts.os.id == "ubuntu"
    assert facts.gpus


def test_hostile_values_stay_values() -> None:
    name = "a\nb\tc\\nd"
    env: Lines = [("env", f"/x/{name}", "conda", "3.10.1"), ("env", "/x/\udcff", "conda", "")]
    envs = parse(rented(conda=env)).envs or ()
    assert envs[0].path == f"/x/{name}"
    assert envs[1].path == "/x/\\xff"


@pytest.mark.parametrize(
    ("records", "count", "limit"),
    [
        ([("cpus", "8"), ("limit", "cpu.max", "/", "max 100000")], 8, None),
        (
            [("cpus", "8"), ("limit", "cpu.max", "/a/", "50000 100000"), ("limit", "cpu.max", "/", "400000 100000")],
            8,
            0.5,
        ),
        (
            [("cpus", "8"), ("limit", "cpu.cfs_quota_us", "/", "-1"), ("limit", "cpu.cfs_period_us", "/", "100000")],
            8,
            None,
        ),
        (
            [
                ("cpus", "8"),
                ("limit", "cpu.cfs_quota_us", "/", "250000"),
                ("limit", "cpu.cfs_period_us", "/", "100000"),
            ],
            8,
            2.5,
        ),
        ([("cpus-online", "0-3,8,10-11")], 7, None),
        ([("cpus-online", "all of them")], None, None),
        ([("limit", "cpu.max", "/", "1 0")], None, None),
    ],
)
def test_cpus_and_their_limit(records: Lines, count: int | None, limit: float | None) -> None:
    cpu = parse(rented(resources=records)).cpu
    assert (cpu.count, cpu.limit) == (count, limit)


def test_a_limit_of_cgroup_v1_that_is_none_is_none() -> None:
    records: Lines = [
        ("limit", "memory.limit_in_bytes", "/", "9223372036854771712"),
        ("limit", "memory.max", "/", "max"),
    ]
    assert parse(rented(resources=records)).memory.limit is None


@pytest.mark.parametrize(
    ("text", "glibc"),
    [
        ("glibc 2.36", "2.36"),
        ("ldd (Ubuntu GLIBC 2.35-0ubuntu3.1) 2.35", "2.35"),
        ("ldd (GNU libc) 2.17", "2.17"),
        ("musl libc (x86_64)", None),
        ("sh: ldd: not found", None),
    ],
)
def test_the_c_library(text: str, glibc: str | None) -> None:
    assert parse(rented(os=[("libc", text)])).glibc == glibc


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([], ""),
        ([("hint", "/.dockerenv"), ("env", "KUBERNETES_SERVICE_HOST")], "kubernetes"),
        ([("cgroup", "4:memory:/kubepods/besteffort/pod1")], "kubernetes"),
        ([("cgroup", "4:memory:/docker/abc")], "docker"),
        ([("hint", "/run/.containerenv")], "podman"),
        ([("manager", "systemd-nspawn")], "systemd-nspawn"),
        ([("hint", "/dev/lxd/sock")], "lxc"),
        ([("hint", "/run/host/container-manager")], "unknown"),
    ],
)
def test_containers(records: Lines, kind: str) -> None:
    assert parse(rented(container=records)).container.kind == kind


def everything(facts: Facts) -> None:
    """Use facts the way readers do; nothing may raise."""
    json.dumps(to_json(facts))
    assert all(isinstance(line, str) for pair in summary(facts) for line in pair)
    compare_protected(facts.protected, {})


@given(st.binary(max_size=2000))
def test_any_bytes_give_facts(junk: bytes) -> None:
    everything(parse(junk))


KEYS = sorted((group, key) for group, keys in GROUPS.items() for key in keys)
FIELDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [*GROUPS, "0", "1", "-1", "9" * 30, PID1, 'ID="', "0 0 0 0 0 /", "\\", "max 0", SMI_FIELDS, "timeout"]
    ),
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.lists(FIELDS, max_size=9)), max_size=30))
def test_any_values_of_known_keys_give_facts(records: list[tuple[tuple[str, str], list[str]]]) -> None:
    groups: dict[str, Lines] = {}
    for (group, key), values in records:
        groups.setdefault(group, []).append((key, *values))
    everything(parse(output(groups)))


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_truncated_and_mixed_up_outputs_give_facts(chance: random.Random, cuts: int) -> None:
    stdout = rented()
    for _ in range(cuts):
        a, b = sorted(chance.sample(range(len(stdout) + 1), 2))
        match chance.randrange(4):
            case 0:
                stdout = stdout[:b]
            case 1:
                stdout = stdout[:a] + stdout[b:]
            case 2:
                stdout = stdout[a:b] + stdout[:a] + stdout[b:]
            case _:
                stdout = stdout[:a] + bytes(chance.randrange(256) for _ in range(20)) + stdout[a:]
        stdout = stdout or b"\n"
        if len(stdout) < 2:
            break
    everything(parse(stdout))


def test_every_cut_is_named() -> None:
    whole = rented()
    for length in range(0, len(whole) - 1, 7):
        facts = parse(whole[:length])
        assert facts.unseen, length
