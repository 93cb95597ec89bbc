"""What ``compile`` compiles: each launcher's calls for models of true shapes, in each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.compile import Case
from fastqps.kernels.quantise_rows import quantise_rows

_FP8_ARCH = 89  # the first with float8 conversions
_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_ROWS = 4096


@dataclass(frozen=True)
class Encoder:
    """The sizes of one model that kernels see."""

    name: str
    width: int
    heads: int
    inner: int
    activation: str
    gated: bool = False
    window: int = 0  # and rotary positions
    rms: bool = False


@dataclass(frozen=True)
class Decoder:
    """The sizes of one model that kernels see."""

    name: str
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    layers: int
    vocab: int
    qk_norm: bool = False


ENCODERS = (
    Encoder("MiniLM-L6", 384, 12, 1536, "gelu"),
    Encoder("BERT-base", 768, 12, 3072, "gelu"),
    Encoder("ModernBERT-base", 768, 12, 1152, "gelu", gated=True, window=64),
)
DECODERS = (
    Decoder("SmolLM2-135M", 576, 9, 3, 64, 1536, 30, 49152),
    Decoder("Qwen2.5-0.5B", 896, 14, 2, 64, 4864, 24, 151936),
    Decoder("Qwen3-0.6B", 1024, 16, 8, 128, 3072, 28, 151936, qk_norm=True),
    Decoder("Llama-3.2-1B", 2048, 32, 8, 64, 8192, 16, 128256),
)


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor without storage."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def all_cases(arch: int, brief: bool = False) -> Iterator[Case]:
    """Every launcher, model and type; with FP8 where the machine has it. ``brief``: bfloat16 of the smallest models."""
    for name, dtype in _TYPES.items():
        if brief and dtype != torch.bfloat16:
            continue
        for encoder in ENCODERS[:1] if brief else ENCODERS:
            yield from _encoder_cases(encoder, name, dtype, arch >= _FP8_ARCH)
        for decoder in DECODERS[:1] if brief else DECODERS:
            yield from _decoder_cases(decoder, name, dtype, arch >= _FP8_ARCH)


def _encoder_cases(model: Encoder, type_name: str, dtype: torch.dtype, fp8: bool) -> Iterator[Case]:
    x, weight, count = meta(_ROWS, model.width, dtype=dtype), meta(model.width), meta(16, dtype=torch.int32)
    at = f"{model.name} {type_name}"
    norm = partial(add_norm, x, weight, weight, 1e-12, "layer", residual=x, count=count)
    yield Case(f"{at} add_norm", norm)
    if fp8:
        yield Case(f"{at} add_norm fp8", partial(norm, want_fp8=True))
        yield Case(f"{at} quantise_rows", partial(quantise_rows, x, count))


def _decoder_cases(model: Decoder, type_name: str, dtype: torch.dtype, fp8: bool) -> Iterator[Case]:
    x, weight, count = meta(_ROWS, model.width, dtype=dtype), meta(model.width), meta(16, dtype=torch.int32)
    at = f"{model.name} {type_name}"
    norm = partial(add_norm, x, weight, None, 1e-6, "rms", count=count)
    yield Case(f"{at} rms_norm", norm)
    yield Case(f"{at} add_norm", partial(norm, residual=x, want_sum=True))
    if fp8:
        yield Case(f"{at} add_norm fp8", partial(norm, residual=x, want_sum=True, want_values=False, want_fp8=True))
