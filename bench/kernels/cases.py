"""The cases of ``compile``: each launcher's calls for models of true shapes, in each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.kernels.compile import Case
from fastqps._core import ADMITTED_WORDS, BIAS_WORDS, TARGET_WORDS
from fastqps.kernels.activate import activate
from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.bag_means import bag_means
from fastqps.kernels.embed_norm import embed_norm
from fastqps.kernels.embed_tokens import embed_tokens
from fastqps.kernels.last_rows import last_rows
from fastqps.kernels.layers import Attention, LogitChanges, Tables
from fastqps.kernels.pool import pool
from fastqps.kernels.quantise_rows import quantise_rows
from fastqps.kernels.results import Activation
from fastqps.kernels.rope_kv import rope_kv
from fastqps.kernels.sampling.chunks import sample_chunks
from fastqps.kernels.sampling.logit_options import logit_options
from fastqps.kernels.sampling.sample import sample
from fastqps.kernels.slot_attention import slot_attention
from fastqps.kernels.stamps import end_step
from fastqps.kernels.tile_attention import tile_attention
from fastqps.runners.decode_buffers import mask_words

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_ROWS, _FEW_ROWS = 4096, 1024  # of encoders' steps: programs have several rows, and one
_STEP, _RUNS = 2048, 1024  # of a decoder's: tokens, runs that give one each


@dataclass(frozen=True)
class Encoder:
    """The sizes of one model that kernels see."""

    name: str
    width: int
    heads: int
    inner: int
    activation: Activation
    gated: bool = False
    window: int = 0  # and rotary positions


@dataclass(frozen=True)
class Decoder:
    """The sizes of one model that kernels see."""

    name: str
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    qk_norm: bool = False


ENCODERS = (
    Encoder("MiniLM-L6", 384, 12, 1536, "gelu"),
    Encoder("BERT-base", 768, 12, 3072, "gelu"),
    Encoder("ModernBERT-base", 768, 12, 1152, "gelu", gated=True, window=64),
)
# Decoders that embed: what their steps launch beside a decoder's norms and activations.
EMBEDDING_DECODERS = (
    Decoder("Qwen3-Embedding-0.6B", 1024, 16, 8, 128, 3072, 151669, qk_norm=True),
    Decoder("EmbeddingGemma-300m", 768, 3, 1, 256, 1152, 262144, qk_norm=True),
)
DECODERS = (
    Decoder("SmolLM2-135M", 576, 9, 3, 64, 1536, 49152),
    Decoder("Qwen2.5-0.5B", 896, 14, 2, 64, 4864, 151936),
    Decoder("Qwen3-0.6B", 1024, 16, 8, 128, 3072, 151936, qk_norm=True),
    Decoder("Llama-3.2-1B", 2048, 32, 8, 64, 8192, 128256),
)


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor without storage."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def all_cases(fp8: bool, brief: bool = False) -> Iterator[Case]:
    """Every launcher, model and type; FP8 where the GPU has it. ``brief``: bfloat16 of one model of each kind."""
    for name, dtype in _TYPES.items():
        if brief and dtype != torch.bfloat16:
            continue
        for encoder in ENCODERS[::2] if brief else ENCODERS:
            yield from _encoder_cases(encoder, name, dtype, fp8)
        yield from _static_cases(name, dtype)
        for decoder in EMBEDDING_DECODERS:
            yield from _embedding_cases(decoder, name, dtype)
        for decoder in DECODERS[:1] if brief else DECODERS:
            yield from _decoder_cases(decoder, name, dtype, fp8)
            yield from _slots_cases(decoder, name, dtype)


def _encoder_cases(model: Encoder, type_name: str, dtype: torch.dtype, fp8: bool) -> Iterator[Case]:
    at = f"{model.name} {type_name}"
    x, weight = meta(_ROWS, model.width, dtype=dtype), meta(model.width)
    ids, marks, counts = (meta(n, dtype=torch.int32) for n in (_ROWS, 513, 16))
    stamps = meta(2, dtype=torch.int64)
    words, *others = (meta(n, model.width, dtype=dtype) for n in (_ROWS, 512, 2))
    places, kinds = (None, None) if model.window else others
    tables = Tables(words, places, kinds, weight, weight, 1e-12)
    embed = partial(embed_norm, ids=ids, types=ids, cu_seqlens=marks, counts=counts, tables=tables, stamps=stamps)
    norm = partial(add_norm, x=x, weight=weight, bias=weight, eps=1e-12, kind="layer", residual=x, count=counts)
    norm = partial(norm, return_sum=model.gated)
    inner = meta(_ROWS, model.inner * (2 if model.gated else 1), dtype=dtype)
    act = partial(activate, inner, model.activation, gated=model.gated, count=counts)
    qkv = meta(_ROWS, 3 * model.width, dtype=dtype)
    attend, heads = partial(tile_attention, qkv, ids, ids), model.heads
    yield Case(f"{at} embed_norm", embed)
    if not model.window:
        sums = partial(embed_norm, ids, None, marks, counts, Tables(words))
        yield Case(f"{at} embed_norm sum", sums)
    yield Case(f"{at} add_norm", norm)
    few = x[:_FEW_ROWS]
    yield Case(f"{at} embed_norm few rows", partial(embed, ids=ids[:_FEW_ROWS], types=ids[:_FEW_ROWS]))
    yield Case(f"{at} add_norm few rows", partial(norm, x=few, residual=few))
    yield Case(f"{at} activate", act)
    if model.window:
        rotary = meta(512, 2, model.width // model.heads // 2)
        yield Case(f"{at} tile_attention rotary", partial(attend, Attention(heads, heads, rotary)))
        windowed = Attention(heads, heads, rotary, window=model.window)
        yield Case(f"{at} tile_attention rotary window", partial(attend, windowed))
    else:
        yield Case(f"{at} tile_attention", partial(attend, Attention(heads, heads)))
        biased = Attention(heads, heads, bias=meta(heads, 2 * 512 + 1))
        yield Case(f"{at} tile_attention bias", partial(attend, biased))
        vectors = meta(2, heads, model.width // heads, 2 * 512 + 16, dtype=dtype)
        yield Case(f"{at} tile_attention relative", partial(attend, Attention(heads, heads, relative=vectors)))
    for mode in ("mean", "cls", "max"):
        yield Case(f"{at} pool {mode}", partial(pool, x, marks, counts, mode, stamps=stamps))
    yield Case(f"{at} end_step", partial(end_step, stamps))
    if fp8:
        yield Case(f"{at} embed_norm fp8", partial(embed, return_fp8=True))
        yield Case(f"{at} add_norm fp8", partial(norm, return_fp8=True))
        yield Case(f"{at} activate fp8", partial(act, fp8=True))
        yield Case(f"{at} quantise_rows", partial(quantise_rows, x, counts))


def _embedding_cases(model: Decoder, type_name: str, dtype: torch.dtype) -> Iterator[Case]:
    at = f"{model.name} {type_name}"
    ids, marks, counts = (meta(n, dtype=torch.int32) for n in (_ROWS, 513, 16))
    words = meta(_ROWS, model.width, dtype=dtype)
    yield Case(f"{at} embed", partial(embed_norm, ids, None, marks, counts, Tables(words)))
    qkv = meta(_ROWS, (model.heads + 2 * model.kv_heads) * model.head_dim, dtype=dtype)
    norms, rotary = meta(model.head_dim), meta(512, 2, model.head_dim // 2)
    attention = partial(Attention, model.heads, model.kv_heads, rotary, norms, norms, 1e-6)
    for name, limits in (("causal", attention(causal=True)), ("window", attention(window=256))):
        yield Case(f"{at} tile_attention {name}", partial(tile_attention, qkv, ids, ids, limits))
    last = partial(pool, words, marks, counts, "lasttoken", ids=ids, skipped=0)
    yield Case(f"{at} pool lasttoken", last)


def _static_cases(type_name: str, dtype: torch.dtype) -> Iterator[Case]:
    """A table of potion-base-8M's shape; int8 beside float32."""
    ids, marks, counts = (meta(n, dtype=torch.int32) for n in (_ROWS, 513, 16))
    stamps, out = meta(2, dtype=torch.int64), meta(512, 256)
    for of_table, kind in ((type_name, dtype), *([("int8", torch.int8)] if dtype == torch.float32 else [])):
        table = meta(29528, 256, dtype=kind)
        bags = partial(bag_means, table, None, None, ids, marks, counts, 29528, 1, out=out, stamps=stamps)
        yield Case(f"potion-8M {of_table} bag_means", bags)
    weights, mapping = meta(29528), meta(29528, dtype=torch.int32)
    bags = partial(bag_means, meta(8000, 256, dtype=dtype), mapping, weights, ids, marks, counts, 29528, 1, out=out)
    yield Case(f"potion-8M {type_name} bag_means mapped", bags)


def _decoder_cases(model: Decoder, type_name: str, dtype: torch.dtype, fp8: bool) -> Iterator[Case]:
    x, weight, count = meta(_STEP, model.width, dtype=dtype), meta(model.width), meta(16, dtype=torch.int32)
    at = f"{model.name} {type_name}"
    norm = partial(add_norm, x, weight, None, 1e-6, "rms", count=count)
    yield Case(f"{at} rms_norm", norm)
    yield Case(f"{at} add_norm", partial(norm, residual=x, return_sum=True))
    act = partial(activate, meta(_STEP, 2 * model.inner, dtype=dtype), "silu", gated=True, count=count)
    yield Case(f"{at} activate", act)
    if fp8:
        yield Case(f"{at} activate fp8", partial(act, fp8=True))
        yield Case(
            f"{at} add_norm fp8", partial(norm, residual=x, return_sum=True, return_values=False, return_fp8=True)
        )


def _slots_cases(model: Decoder, type_name: str, dtype: torch.dtype) -> Iterator[Case]:
    """A step of many rows and runs over a cache whose offsets pass 32 bits."""
    at, n = f"{model.name} {type_name}", model.kv_heads
    ints = partial(meta, dtype=torch.int32)
    rows, starts, counts, params = ints(_STEP), ints(_RUNS + 1), ints(16), ints(_RUNS + 1, ADMITTED_WORDS)
    stamps, logprobs = meta(2, dtype=torch.int64), meta(_RUNS)
    table, logits = meta(model.vocab, model.width, dtype=dtype), meta(_RUNS, model.vocab, dtype=dtype)
    qkv = meta(_STEP, (model.heads + 2 * n) * model.head_dim, dtype=dtype)
    cache = meta(2, _RUNS + 1, n, 4096, model.head_dim, dtype=dtype)
    rotary, norm = meta(4096, 2, model.head_dim // 2), meta(model.head_dim) if model.qk_norm else None
    history = ints(_RUNS + 1, 4096)
    kept: dict[str, Any] = {
        "admitted": ints(_RUNS, ADMITTED_WORDS),
        "params": params,
        "positions": rows,
        "history": history,
    }
    embed = partial(embed_tokens, table, rows, rows, starts, counts, **kept, stamps=stamps)
    yield Case(f"{at} embed_tokens", embed)
    write = partial(
        rope_kv, qkv, cache, Attention(model.heads, n, rotary, norm, norm, 1e-6), rows, rows, counts, prefix_len=0
    )
    yield Case(f"{at} rope_kv", write)
    queries = meta(_STEP, model.heads * model.head_dim, dtype=dtype)
    for prefix_len, last in ((0, False), (33, False), (0, True)):
        prefix = meta(2, n, prefix_len, model.head_dim, dtype=dtype)
        attend = partial(slot_attention, queries, cache, prefix, starts, rows, rows, counts, last_rows=last)
        name = f"{at} slot_attention{' prefix' if prefix_len else ''}{' last' if last else ''}"
        yield Case(name, attend)
    yield Case(f"{at} last_rows", partial(last_rows, meta(_STEP, model.width, dtype=dtype), starts, counts))
    where = (starts, rows, rows, starts, params, ints(_RUNS + 1, BIAS_WORDS), history, ints(3))
    targets = ints(_RUNS, TARGET_WORDS)
    beside = {"targets": targets, "masks": ints(_RUNS, mask_words(model.vocab))}
    changes = LogitChanges(*where, ints(9, 4), ints(5), counts, n_forced=1, longest=2, **beside)
    yield Case(f"{at} logit_options", partial(logit_options, logits, changes))
    yield Case(f"{at} sample_chunks", partial(sample_chunks, logits, starts, rows, params, counts))
    draw = partial(sample, logits, starts, rows, starts, params, ints(3), counts, stamps=stamps)
    outputs = {"tokens": starts, "logprobs": logprobs, "finish": starts, "last_token": starts}
    outputs |= {"top": meta(_RUNS, 40, dtype=torch.int32), "targets": targets}
    yield Case(f"{at} sample", partial(draw, **outputs))
