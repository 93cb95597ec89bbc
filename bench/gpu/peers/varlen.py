"""Attention of variable length for transformers' continuous batching, where no flash-attn package is installed.

transformers chooses an attention function by name. The function here takes what continuous batching passes and calls
one kernel: torch's own FlashAttention on a GPU, a loop on a CPU. It reads no value back from the device, so CUDA
graphs and asynchronous steps can hold it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

# (queries [T, heads, size], keys and values [S, key heads, size], starts of queries and of keys [N + 1], the most
# queries and keys of a sequence, scale=) -> [T, heads, size]. Causal: the last query of a sequence sees its last key.
Kernel = Callable[..., torch.Tensor]

# Up to about 5.20, functions for a paged cache have a prefix and write the cache; later the model has written it.
_PREFIX = "paged|" if "paged|sdpa" in ALL_ATTENTION_FUNCTIONS else ""
SDPA = f"{_PREFIX}sdpa"
# With "flash" in its name, transformers builds no mask over everything; no digit follows, which would promise block
# tables to its path for decode steps.
VARLEN = f"{_PREFIX}torch_flash_varlen"


def torch_kernel() -> Kernel:
    """torch's FlashAttention. ``ImportError`` where this torch has none that knows windows (before 2.11)."""
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    if "window_size" not in known:
        raise ImportError(f"torch {torch.__version__}: varlen_attn takes no window_size")
    # Before 2.12 grouped key heads need no leave: the kernel has always taken them.
    grouped: dict[str, Any] = {"enable_gqa": True} if "enable_gqa" in known else {}

    # The window (-1, 0) is the causal mask. FlashAttention aligns it with the end of the keys.
    attend: Any = varlen_attn
    return partial(attend, window_size=(-1, 0), **grouped)


def plain_kernel(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, starts_q: torch.Tensor, starts_k: torch.Tensor,
    most_q: int, most_k: int, *, scale: float,
) -> torch.Tensor:  # fmt: skip
    """The same, one sequence after the other, on any device."""
    out, groups = torch.zeros_like(q), q.shape[1] // k.shape[1]
    ends = (starts[1:].tolist() for starts in (starts_q, starts_k))
    at_q = at_k = 0
    for end_q, end_k in zip(*ends, strict=True):
        keys, values = (each[at_k:end_k].repeat_interleave(groups, 1) for each in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[at_q:end_q], keys) * scale
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1 + scores.shape[2] - scores.shape[1])
        weights = scores.masked_fill(hidden.to(q.device), -torch.inf).softmax(-1)
        out[at_q:end_q] = torch.einsum("hqk,khd->qhd", weights, values)
        at_q, at_k = end_q, end_k
    return out


def use_varlen(model: Any, kernel: Kernel) -> None:
    """Makes the model's attention this kernel, in continuous batching alone."""
    ALL_ATTENTION_FUNCTIONS.register(VARLEN, _attention(kernel))
    # Not set_attn_implementation: it would look for a package of every name that has "flash" in it.
    model.config._attn_implementation = VARLEN


def use_sdpa(model: Any) -> None:
    """torch's attention under a mask of all queries by all keys: right, and slow."""
    model.config._attn_implementation = SDPA


def _attention(kernel: Kernel) -> Callable[..., tuple[torch.Tensor, None]]:
    """The function that transformers calls in each layer; queries, keys and values are [1, heads, tokens, size]."""

    def attention(
        module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        attention_mask: torch.Tensor | None, *, scaling: float, cu_seq_lens_q: torch.Tensor, **more: Any,
    ) -> tuple[torch.Tensor, None]:  # fmt: skip
        if attention_mask is not None or more.get("block_table") is not None:
            raise ValueError("this attention knows neither masks nor block tables")
        if (cache := more.get("cache")) is not None:  # gives [tokens, key heads, size]
            places = {name: more[name] for name in ("read_index", "write_index")}
            key, value = cache.update(key_states=key, value_states=value, layer_idx=module.layer_idx, **places)
        else:
            key, value = (each.squeeze(0).transpose(0, 1) for each in (key, value))
        lengths_max: list[Any] = [more.get(f"max_seqlen_{side}", more.get(f"max_length_{side}")) for side in "qk"]
        rows = query.squeeze(0).transpose(0, 1).contiguous()
        starts = cu_seq_lens_q.to(torch.int32), more["cu_seq_lens_k"].to(torch.int32)
        return kernel(rows, key.contiguous(), value.contiguous(), *starts, *lengths_max, scale=scaling), None

    return attention
