"""Attention as flash-attn offers it: query, key and value are (batch, length, heads, size), in half precision."""

# mypy: ignore-errors
__version__ = "0.1.0"

import torch  # noqa: I001  # first: only then are its libraries found

import mini_attn_cuda


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
    """Return softmax(q k / sqrt(size)) v. Only what a comparison needs: no dropout, no mask, no gradient."""
    if dropout_p or causal:
        raise NotImplementedError("mini-attn has neither dropout nor a causal mask")
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    with torch.no_grad():
        return mini_attn_cuda.attention(q.contiguous(), k.contiguous(), v.contiguous(), scale)
