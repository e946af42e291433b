from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import GpuprovError, HostFailed, Unseen
from gpuprov.model import Claims
from gpuprov.resources import acceptance
from gpuprov.resources.acceptance import Check, ContainerCheck, NvccCheck, Seen, SmiCheck, TorchCheck
from gpuprov.resources.directory import Directory

from .host import SHELLS, Host

WAITING = "pending GPU: RTX 4090 is expected"
SMI = SmiCheck()
LATER = SmiCheck(pending=WAITING)
NVCC = NvccCheck(cuda="11.7", folder="/usr/local/cuda-11.7")
TORCH = TorchCheck(folder="/envs/flash", version="1.13.1", cards=1)
TORCH_LATER = TorchCheck(folder="/envs/flash", version="1.13.1", pending=WAITING)
FLASH = TorchCheck(folder="/envs/flash", version="1.13.1", cards=1, module="flash_attn", module_version="1.0.9")
FLASH_LATER = TorchCheck(folder="/envs/flash", module="flash_attn", module_version="1.0.9", pending=WAITING)


def said(*lines: str, status: int = 0) -> str:
    return "".join(f"\ngpuprov: {line}\n" for line in lines) + f"\nstatus {status}\n"


BEGUN = ("at torch", "torch 1.13.1+cu117|11.7", "at cudnn", "cudnn 8500", "at device")
CARD = "card 0|8.9|NVIDIA GeForce RTX 4090"
ALL = (*BEGUN, CARD, "at cudnn")
CSV = "0, NVIDIA A100-SXM4-80GB, 535.54.03\n1, NVIDIA A100-SXM4-80GB, 535.54.03\n"
NVCC_SAYS = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.7, V11.7.99\n"

FINE: dict[str, tuple[Check, str, str]] = {
    "cards": (SMI, f"{CSV}\nstatus 0\n", "driver 535.54.03, 2 x NVIDIA A100-SXM4-80GB"),
    "a card that was promised, and is there": (LATER, f"{CSV}\nstatus 0\n", "driver 535.54.03, 2 x"),
    "no card yet": (LATER, "No devices were found\n\nstatus 6\n", WAITING),
    "no driver yet": (LATER, "sh: nvidia-smi: not found\n\nstatus 127\n", WAITING),
    "the placeholder of a boot without a card": (LATER, "Permission denied\n\nstatus 126\n", WAITING),
    "nvcc": (NVCC, f"{NVCC_SAYS}\nstatus 0\n", "nvcc 11.7.99 at /usr/local/cuda-11.7"),
    "no container runtime": (ContainerCheck(), "-\n-\n-\n-\n", "no container runtime"),
    "container runtimes": (ContainerCheck(), "/usr/bin/docker\n-\n/usr/bin/nvidia-ctk\n-\n", "docker, nvidia-ctk"),
    "torch": (
        TORCH,
        said(*ALL, "end"),
        "torch 1.13.1+cu117, CUDA 11.7, cuDNN 8500; device: 1 x NVIDIA GeForce RTX 4090 (sm_89)",
    ),
    "torch of one build": (TorchCheck(folder="/e", version="1.13.1+cu117"), said(*ALL, "end"), "torch 1.13.1+cu117"),
    "more cards than were seen": (TORCH, said(*BEGUN, CARD, "card 1|8.9|NVIDIA GeForce RTX 4090", "end"), "2 x NVIDIA"),
    "torch before the card": (
        TORCH_LATER,
        said(*BEGUN, "none Found no NVIDIA driver on your system.", "end"),
        f"torch 1.13.1+cu117, CUDA 11.7, cuDNN 8500; device: {WAITING}",
    ),
    "flash-attn": (
        FLASH,
        said(*ALL, "at module", "module 1.0.9", "compared largest difference 4.9e-04", "end"),
        "flash_attn 1.0.9: largest difference 4.9e-04",
    ),
    "flash-attn with nothing to compare": (FLASH, said(*ALL, "module 1.0.9", "end"), "flash_attn 1.0.9: imported"),
    "flash-attn before the card": (
        FLASH_LATER,
        said(*BEGUN, "none no driver", "at module", "module 1.0.9", "end"),
        "flash_attn 1.0.9: imported, its numbers are pending GPU",
    ),
    "another toolkit than torch's": (
        TorchCheck(folder="/e", cuda="12.1"),
        said(*ALL, "end"),
        "nothing can be compiled against it with CUDA 12.1",
    ),
    "libraries that print": (TORCH, "a warning\n" + said(*ALL, "end"), "torch 1.13.1+cu117"),
}

WRONG: dict[str, tuple[Check, str, tuple[str, ...]]] = {
    "no driver": (SMI, "sh: 1: nvidia-smi: not found\n\nstatus 127\n", ("nvidia-smi: not found", "role driver")),
    "no card": (SMI, "No devices were found\n\nstatus 0\n", ("nvidia-smi: no devices",)),
    "nothing said": (SMI, "\nstatus 0\n", ("nvidia-smi: it shows no card",)),
    "replaced libraries": (
        LATER,
        "Failed to initialize NVML: Driver/library version mismatch\n\nstatus 18\n",
        ("version mismatch", "restart"),
    ),
    "nvidia-smi hangs": (LATER, "\nstatus 137\n", ("nvidia-smi: timed out",)),
    "no nvcc": (
        NVCC,
        "sh: not found\n\nstatus 127\n",
        ("nvcc: there is no /usr/local/cuda-11.7/bin/nvcc", "cuda_toolkit"),
    ),
    "another nvcc": (NVCC, NVCC_SAYS.replace("11.7", "12.1") + "\nstatus 0\n", ("nvcc: ", "of CUDA 12.1, not 11.7")),
    "nvcc does not run": (NVCC, "cannot execute binary\n\nstatus 126\n", ("status 126: cannot execute binary",)),
    "nvcc crashes": (NVCC, "\nstatus 139\n", ("signal 11",)),
    "no environment": (TORCH, "absent\n", ("torch: there is no Python at /envs/flash/bin/python", "conda_env")),
    "no torch": (
        TORCH,
        said("at torch", "trouble torch ModuleNotFoundError: No module named 'torch'", "end"),
        ("torch: it is not installed in /envs/flash", "pin it"),
    ),
    "torch does not load": (
        TORCH,
        said("at torch", "trouble torch ImportError: libcudart.so.11.0: cannot open shared object file", "end"),
        ("torch: ImportError: libcudart.so.11.0", "conda_env"),
    ),
    "another torch": (
        TORCH,
        said("at torch", "torch 2.1.0+cu117|11.7", CARD, "end"),
        ("it is 2.1.0+cu117, and 1.13.1",),
    ),
    "another build": (
        TorchCheck(folder="/e", version="1.13.1+cu116"),
        said(*ALL, "end"),
        ("1.13.1+cu117, and 1.13.1+cu116 is wanted",),
    ),
    "torch without CUDA": (
        TORCH_LATER,
        said("at torch", "torch 1.13.1+cpu|", "none Torch not compiled with CUDA enabled", "end"),
        ("torch: 1.13.1+cpu is a build without CUDA",),
    ),
    "cuDNN": (
        TORCH,
        said(*BEGUN[:3], "trouble cudnn RuntimeError: cuDNN version incompatibility", "at device", CARD, "end"),
        ("cudnn: RuntimeError: cuDNN version incompatibility", "LD_LIBRARY_PATH"),
    ),
    "cuDNN aborts": (
        TORCH,
        "Could not load library libcudnn_cnn_infer.so.8\n" + said(*ALL, status=134),
        ("cudnn: it was ended by signal 6", "libcudnn_cnn_infer", "LD_LIBRARY_PATH"),
    ),
    "a card that torch cannot use": (
        TORCH,
        said(*BEGUN, "none The NVIDIA driver on your system is too old (found version 10010)", "end"),
        ("device: 1 GPU is there and torch can use none", "too old", "role driver"),
    ),
    "no card, and none promised": (
        TorchCheck(folder="/e"),
        said(*BEGUN, "none no driver", "end"),
        ("device: no GPU (no driver)", "`gpu:` in the inventory"),
    ),
    "no card at all is listed": (TORCH, said(*BEGUN, "end"), ("device: 1 GPU is there and torch can use none",)),
    "no code for the card": (
        TORCH,
        said(*BEGUN, "trouble device RuntimeError: CUDA error: no kernel image is available", "end"),
        ("device: RuntimeError: CUDA error: no kernel image", "no code for this card"),
    ),
    "fewer cards": (
        TorchCheck(folder="/e", cards=2),
        said(*ALL, "end"),
        ("torch uses 1 of 2 GPUs", "CUDA_VISIBLE_DEVICES"),
    ),
    "a broken package": (
        FLASH,
        said(*ALL, "at module", "trouble module ImportError: undefined symbol: _ZN3c10", "end"),
        ("module: ImportError: undefined symbol", "flash_attention"),
    ),
    "a broken package before the card": (
        FLASH_LATER,
        said(*BEGUN, "none no driver", "at module", "trouble module ImportError: undefined symbol", "end"),
        ("module: ImportError",),
    ),
    "another release of the package": (FLASH, said(*ALL, "module 2.3.0", "end"), ("flash_attn is 2.3.0, and 1.0.9",)),
    "two layers": (
        FLASH,
        said(*BEGUN[:3], "trouble cudnn RuntimeError: old", "trouble device RuntimeError: dead", "end"),
        ("cudnn: RuntimeError: old", "device: RuntimeError: dead"),
    ),
    "it hangs": (TORCH, said("at torch", status=137), ("torch: it was ended: it hung", "try again")),
    "it hangs on the card": (TORCH, said(*BEGUN, status=124), ("device: it was ended: it hung",)),
    "it crashes": (
        FLASH,
        said(*ALL, "at module", status=139),
        ("module: it was ended by signal 11", "flash_attention"),
    ),
    "Python does not run": (
        TORCH,
        "No module named 'encodings'\n\nstatus 1\n",
        ("python: it ended with status 1: No module",),
    ),
}

CUT: dict[str, tuple[Check, str]] = {
    "nothing": (SMI, ""),
    "no status": (NVCC, NVCC_SAYS),
    "no status of torch": (TORCH, "\ngpuprov: at torch\n"),
    "the beginning is lost": (TORCH, said("at device", CARD, "end")),
    "fewer answers than asks": (ContainerCheck(), "-\n"),
}


def seen(check: Check, output: str) -> Seen:
    found = check.probe().parse(output.encode())
    assert found is not None
    return found


@pytest.mark.parametrize("case", FINE)
def test_what_works_is_told(case: str) -> None:
    check, output, words = FINE[case]
    found = seen(check, output)
    assert check.plan(found) is None
    assert words in check.tell(found)


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_work_fails(case: str) -> None:
    check, output, words = WRONG[case]
    with pytest.raises(HostFailed) as caught:
        check.plan(seen(check, output))
    for part in words:
        assert part in caught.value.message


@pytest.mark.parametrize("case", CUT)
def test_a_look_that_was_cut_short_says_nothing(case: str) -> None:
    check, output = CUT[case]
    with pytest.raises(Unseen):
        seen(check, output)


@given(st.sampled_from([SMI, LATER, NVCC, ContainerCheck(), TORCH, FLASH]), st.binary(max_size=300), st.booleans())
def test_whatever_is_printed_is_judged(check: Check, data: bytes, ended: bool) -> None:
    try:
        found = check.probe().parse(data + (b"\nstatus 0\n" if ended else b""))
        assert found is not None
        assert check.plan(found) is None
    except GpuprovError as error:
        assert "\x1b" not in error.message
        return
    assert (
        isinstance(check, ContainerCheck) or b"gpuprov" in data or b"," in data or b"release" in data or check is LATER
    )


@pytest.mark.parametrize("check", [SMI, NVCC, ContainerCheck(), TORCH, FLASH])
def test_a_check_writes_nothing_and_has_words_without_a_look(check: Check) -> None:
    change = check.plan(None)
    assert change is not None
    assert (change.steps, change.after) == ((), check.wanted)
    assert check.claims() == Claims()
    assert check.place is None


def test_identities_and_needs() -> None:
    folder = Directory(path="/envs/flash")
    checks = [SMI, NVCC, ContainerCheck(), TorchCheck(folder="/envs/flash/", after=(folder,))]
    assert [check.id for check in checks] == [
        "check:nvidia-smi", "check:nvcc:11.7", "check:containers", "check:torch:/envs/flash"
    ]  # fmt: skip
    assert list(checks[-1].needs()) == [folder]


@pytest.mark.parametrize("fields", [{"folder": "envs"}, {"folder": "/e", "module": "os; x"}])
def test_fields_that_cannot_be(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        TorchCheck(**fields)  # type: ignore[arg-type]  # wrong on purpose


# --- on a host -------------------------------------------------------------------------------

TORCH_PY = '''
import os, sys, types
print("hello from a library")
sys.stderr.write("a warning\\n")
_is = os.environ.get("STUB", "").split()
if "broken" in _is: raise ImportError("libcudart.so.11.0: cannot open\\nshared object file")
if "hangs" in _is:
    import time; time.sleep(40)
__version__ = "1.13.1+cpu" if "cpu" in _is else "1.13.1+cu117"
version = types.SimpleNamespace(cuda=None if "cpu" in _is else "11.7")
float32 = "float32"
def _cudnn():
    if "old" in _is: raise RuntimeError("cuDNN version incompatibility: compiled 8.5, found 7.6")
    return 8500
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=_cudnn, is_available=lambda: True))
class _Tensor:
    def __init__(self, n): self.n = n
    def __mul__(self, k): return _Tensor(self.n)
    def sum(self): return self
    def item(self): return 0 if "wrong" in _is else self.n * (self.n - 1)
def arange(n, dtype, device):
    if "nokernel" in _is: raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
    return _Tensor(n)
def ones(*shape, device): return None
def _conv(x, w):
    if "abort" in _is:
        sys.stderr.write("Could not load library libcudnn_cnn_infer.so.8\\n"); sys.stderr.flush(); os.abort()
nn = types.SimpleNamespace(functional=types.SimpleNamespace(conv2d=_conv))
def _init():
    if "card" not in _is: raise RuntimeError("Found no NVIDIA driver on your system.")
cuda = types.SimpleNamespace(
    is_available=lambda: "card" in _is, init=_init, device_count=lambda: 2, synchronize=lambda: None,
    get_device_capability=lambda i: (8, 9), get_device_name=lambda i: "NVIDIA GeForce RTX 4090",
)
'''  # fmt: skip
FLASH_PY = """
import os
if "symbol" in os.environ.get("STUB", ""): raise ImportError("undefined symbol: _ZN3c10")
__version__ = "1.0.9"
"""


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """An environment whose name needs quoting, with a torch that is told what to be by $STUB."""
    folder = tmp_path / "it's an env"
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    os.symlink(os.path.realpath(sys.executable), folder / "bin" / "python")
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    (site / "torch.py").write_text(TORCH_PY)
    (site / "flash_attn.py").write_text(FLASH_PY)
    return folder


COMPARE = "assert torch.__version__ and module.__version__\nprint('it\\'s equal')"

STUBS: dict[str, tuple[str, str, str]] = {
    "all works": (
        "card",
        "",
        "torch 1.13.1+cu117, CUDA 11.7, cuDNN 8500; device: 2 x NVIDIA GeForce RTX 4090 (sm_89); "
        "flash_attn 1.0.9: it's equal",
    ),
    "no card yet": ("", "soon", "device: soon; flash_attn 1.0.9: imported, its numbers are pending GPU"),
    "no card": ("", "", "!device: no GPU (Found no NVIDIA driver on your system.)"),
    "no CUDA": ("cpu", "soon", "!torch: 1.13.1+cpu is a build without CUDA"),
    "old cuDNN": ("card old", "", "!cudnn: RuntimeError: cuDNN version incompatibility: compiled 8.5, found 7.6"),
    "cuDNN aborts": ("card abort", "", "!cudnn: it was ended by signal 6: Could not load library libcudnn_cnn_infer"),
    "no kernel": ("card nokernel", "", "!device: RuntimeError: CUDA error: no kernel image"),
    "wrong sums": ("card wrong", "", "!device: ArithmeticError: card 0 adds wrongly"),
    "broken": ("broken", "", "!torch: ImportError: libcudart.so.11.0: cannot open shared object file"),
    "broken package": ("card symbol", "", "!module: ImportError: undefined symbol: _ZN3c10"),
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    return SHELLS[request.param]


def outcome(host: Host, check: Check) -> str:
    found = host.look(check)
    assert found is not None
    return "!" + found.problem if found.problem else check.tell(found)


@pytest.mark.parametrize("case", STUBS)
def test_torch_of_an_environment(case: str, shell: list[str], env: Path) -> None:
    stub, pending, expected = STUBS[case]
    check = TorchCheck(
        folder=str(env), version="1.13.1", pending=pending, module="flash_attn", module_version="1.0.9", compare=COMPARE
    )
    before = sorted(env.rglob("*"))
    # What the caller's surroundings say of Python changes nothing
    assert expected in outcome(Host(shell, {"STUB": stub, "PYTHONPATH": "/x", "PYTHONHOME": "/x"}), check)
    assert sorted(env.rglob("*")) == before


def test_a_comparison_that_fails(env: Path) -> None:
    compare = "raise AssertionError('its numbers differ from torch\\'s by 1')"
    check = TorchCheck(folder=str(env), module="flash_attn", compare=compare)
    assert "!module: AssertionError: its numbers differ" in outcome(Host(SHELLS["dash"], {"STUB": "card"}), check)


def test_a_torch_that_hangs_is_ended(shell: list[str], env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "TORCH_SECONDS", 1)
    begun = time.monotonic()
    assert "!torch: it was ended: it hung" in outcome(Host(shell, {"STUB": "hangs"}), TorchCheck(folder=str(env)))
    assert time.monotonic() - begun < 15


def test_what_is_not_there(shell: list[str], tmp_path: Path) -> None:
    host = Host(shell, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert "!torch: there is no Python" in outcome(host, TorchCheck(folder=str(tmp_path / "none")))
    assert "!nvcc: there is no" in outcome(host, NvccCheck(cuda="11.7", folder=str(tmp_path / "none")))


def test_nvidia_smi_and_nvcc(shell: list[str], tmp_path: Path) -> None:
    host = Host(shell, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    (tmp_path / "bin").mkdir()
    for name, text in (("nvidia-smi", CSV), ("nvcc", NVCC_SAYS)):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\ncat <<'E'\n{text}E\n")
        (tmp_path / "bin" / name).chmod(0o755)
    assert outcome(host, SMI) == "driver 535.54.03, 2 x NVIDIA A100-SXM4-80GB"
    assert outcome(host, NvccCheck(cuda="11.7", folder=str(tmp_path))) == f"nvcc 11.7.99 at {tmp_path}"
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho 'No devices were found' >&2\nexit 6\n")
    assert "!nvidia-smi: no devices" in outcome(host, SMI)
    assert outcome(host, LATER) == WAITING
    host.look(ContainerCheck())
