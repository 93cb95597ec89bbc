"""The CPU, through torch and oneDNN."""

from __future__ import annotations

from pathlib import Path

import torch

from fastqps.devices.errors import DeviceError
from fastqps.models.card import ModelCard
from fastqps.models.cpu_decode_ops import CpuDecodeOps
from fastqps.models.packed import PackedModel
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def has_bfloat16(cpuinfo: str) -> bool:
    """Whether a CPU, by the text of /proc/cpuinfo, multiplies bf16 in hardware."""
    return bool({"avx512_bf16", "amx_bf16"} & set(cpuinfo.split()))


def choose_dtype(name: str) -> torch.dtype:
    """``auto`` is bf16 where the CPU has it, else fp32. ``DeviceError`` for what this device cannot do."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        raise DeviceError("device cpu needs a torch with oneDNN (mkldnn), which this one is not")
    if name == "auto":
        info = Path("/proc/cpuinfo")
        name = "bfloat16" if info.is_file() and has_bfloat16(info.read_text()) else "float32"
    if name not in _DTYPES:
        raise DeviceError(f"device cpu has no dtype {name!r}; it has: auto, {', '.join(_DTYPES)}")
    if name == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise DeviceError("this CPU has no bfloat16 (it needs AVX-512); use --dtype float32")
    return _DTYPES[name]


def make_runner(card: ModelCard, max_items: int, max_tokens: int, dtype: str, threads: int) -> EncoderRunner:
    """Loads the model in this process and sets torch's number of threads (0: leaves it)."""
    if threads:
        torch.set_num_threads(threads)
    return EncoderRunner(PackedModel(card, choose_dtype(dtype)), max_items, max_tokens)


def make_decoder(card: ModelCard, slots: int, max_tokens: int, dtype: str, threads: int) -> DecoderRunner:
    """Loads a generator in this process and sets torch's number of threads (0: leaves it)."""
    if threads:
        torch.set_num_threads(threads)
    return DecoderRunner.load(card, CpuDecodeOps(), choose_dtype(dtype), slots, max_tokens)
