"""Transformers on the CPU, through torch and oneDNN."""

from __future__ import annotations

import torch

from fastqps.architectures.packed import PackedModel
from fastqps.devices.dtypes import resolve_dtype
from fastqps.devices.errors import DeviceError
from fastqps.devices.place import Place
from fastqps.devices.shared_choice import shared_choice
from fastqps.host import machine
from fastqps.models.card import ModelCard
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.product_times import product_times
from fastqps.ops.precision import QUANTIZATIONS, Precision
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_dtype(name: str) -> torch.dtype:
    """Resolves ``auto``: bf16 if the CPU supports it, else fp32. Raises ``DeviceError`` for a type that it cannot
    compute."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        raise DeviceError("device cpu needs a torch with oneDNN (mkldnn), which this one is not")
    name = resolve_dtype("cpu", name)
    if name not in _DTYPES:
        raise DeviceError(f"device cpu has no dtype {name!r}; it has: auto, {', '.join(_DTYPES)}")
    if name == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise DeviceError("this CPU has no bfloat16 (it needs AVX-512); use --dtype float32")
    return _DTYPES[name]


def make_encoder(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> EncoderRunner:
    """Loads the model in this process and sets torch's number of threads (0: leaves it)."""
    if place.threads:
        torch.set_num_threads(place.threads)
    dtype = choose_dtype(place.dtype)
    precision = _precision(place, dtype, (64, min(max_tokens, 640 * torch.get_num_threads())))
    with shared_choice(precision, card, _name(), dtype):
        model = PackedModel(card, CpuEncoderOps(dtype, precision))
    precision.conclude()
    return EncoderRunner(model, max_items, max_tokens)


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> DecoderRunner:
    """Loads a generator in this process and sets torch's number of threads (0: leaves it)."""
    if place.threads:
        torch.set_num_threads(place.threads)
    dtype = choose_dtype(place.dtype)
    precision = _precision(place, dtype, (min(slots, 16), min(max_tokens, 512)))
    with shared_choice(precision, card, _name(), dtype):
        runner = DecoderRunner.load(card, CpuDecodeOps(dtype, precision), slots, max_tokens)
    precision.conclude()
    return runner


def _name() -> str:
    """Names the processor and the threads, which decide how fast products are here."""
    return f"{machine.cpu_model()}, {torch.get_num_threads()} threads"


def _precision(place: Place, dtype: torch.dtype, rows: tuple[int, ...]) -> Precision:
    """``rows``: of a small step and of a large one, or the piece that it is computed in."""
    if place.quantization not in QUANTIZATIONS:
        raise DeviceError(f"no quantization {place.quantization!r}; there is: {', '.join(QUANTIZATIONS)}")
    return Precision(place.quantization, rows, product_times(dtype, "int8"), auto_format="int8")
