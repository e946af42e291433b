"""Compare the attention of a package with plain torch on the GPU that is here. Given: torch, module.

Small on purpose: it shows that kernels for this card are in it, and that they compute what they should.
"""

# ruff: noqa: F821
import importlib
import math

torch.manual_seed(0)
batch, length, heads, size = 2, 128, 4, 64
shape = (batch, length, heads, size)
q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))


def _functions():
    if hasattr(module, "flash_attn_func"):
        return module
    try:
        return importlib.import_module(module.__name__ + ".flash_attn_interface")
    except ImportError:
        return None


def _flash(functions):
    # Releases before 2 take all sequences of a batch one after the other; their flash_attn_func is another one
    unpadded = getattr(functions, "flash_attn_unpadded_func", None)
    if unpadded is None:
        return functions.flash_attn_func(q, k, v)
    starts = torch.arange(0, (batch + 1) * length, length, device="cuda", dtype=torch.int32)
    flat = [tensor.reshape(batch * length, heads, size) for tensor in (q, k, v)]
    return unpadded(*flat, starts, starts, length, length, 0.0).reshape(shape)


def _plain():
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) / math.sqrt(size)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v.float())


found = _functions()
if found is None:
    print(f"{module.__name__} has no attention that could be compared")  # noqa: T201
else:
    difference = (_flash(found).float() - _plain()).abs().max().item()
    if not difference < 0.01:
        raise AssertionError(f"its numbers differ from torch's by {difference:g}")
    print(f"compared with torch on {torch.cuda.get_device_name()}: largest difference {difference:.1e}")  # noqa: T201
