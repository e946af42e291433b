"""Build mini-attn as flash-attn is built: the same imports, variables and checks, one small kernel."""

# mypy: ignore-errors

import ast
import os
import re
import subprocess
from pathlib import Path

import torch
from packaging.version import Version, parse
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

HERE = Path(__file__).resolve().parent
ARCHS = ("80", "86")

# flash-attn from 2.0.6 on fetches a ready wheel unless this is set; here nothing is ever fetched.
if os.getenv("FLASH_ATTENTION_FORCE_BUILD", "FALSE") != "TRUE":
    raise SystemExit("error: a ready wheel would be fetched now; FLASH_ATTENTION_FORCE_BUILD=TRUE builds instead")


def nvcc_release() -> Version:
    """The X.Y of the nvcc under CUDA_HOME."""
    if CUDA_HOME is None:
        raise RuntimeError("nvcc was not found: set CUDA_HOME")
    words = subprocess.check_output([CUDA_HOME + "/bin/nvcc", "-V"], text=True).split()
    return parse(words[words.index("release") + 1].split(",")[0])


def version() -> str:
    """The version in the package, with FLASH_ATTN_LOCAL_VERSION behind it."""
    text = (HERE / "mini_attn" / "__init__.py").read_text()
    public = ast.literal_eval(re.search(r"^__version__\s*=\s*(.*)$", text, re.MULTILINE).group(1))
    local = os.environ.get("FLASH_ATTN_LOCAL_VERSION")
    return f"{public}+{local}" if local else public


nvcc = nvcc_release()
print(f"torch {torch.__version__}, nvcc {nvcc} from {CUDA_HOME}, MAX_JOBS={os.environ.get('MAX_JOBS', '')}")
if nvcc < Version("11.0"):
    raise RuntimeError("mini-attn needs CUDA 11.0 or newer")
if nvcc != parse(torch.version.cuda):
    raise RuntimeError(f"nvcc is {nvcc}, and torch was built with CUDA {torch.version.cuda}")

archs = [word for arch in ARCHS for word in ("-gencode", f"arch=compute_{arch},code=sm_{arch}")]
setup(
    name="mini_attn",
    version=version(),
    description="A small attention with flash-attn's build interface",
    packages=["mini_attn"],
    ext_modules=[
        CUDAExtension(
            name="mini_attn_cuda",
            sources=["csrc/mini_attn.cpp", "csrc/attention.cu"],
            extra_compile_args={"cxx": ["-O1"], "nvcc": ["-O1", *archs]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    python_requires=">=3.7",
)
