"""Transformers on the CPU."""

from __future__ import annotations

import torch

from fastqps._core import set_team_cores
from fastqps.architectures.packed import PackedModel
from fastqps.devices.dtypes import resolve_dtype
from fastqps.devices.errors import DeviceError
from fastqps.devices.place import Place
from fastqps.host import machine
from fastqps.models.card import ModelCard
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.matrix import multiplies
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.precision import QUANTIZATIONS, Precision
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner
from fastqps.terminal import say

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_dtype(name: str) -> torch.dtype:
    """Resolves ``auto``: bf16 if the CPU supports it, else fp32. Raises ``DeviceError`` for a type that it cannot
    compute."""
    if not (multiplies() or torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        raise DeviceError("device cpu needs a torch with oneDNN (mkldnn), which this one is not")
    name = resolve_dtype("cpu", name)
    if name not in _DTYPES:
        raise DeviceError(f"device cpu has no dtype {name!r}; it has: auto, {', '.join(_DTYPES)}")
    if name == "bfloat16" and not (multiplies() or torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        raise DeviceError("this CPU has no bfloat16 (it needs AVX2); use --dtype float32")
    return _DTYPES[name]


def choose_precision(place: Place) -> Precision:
    """Resolves ``auto``: int8, where the kernels for it are faster than those for bf16 and fp32."""
    if place.quantization not in QUANTIZATIONS:
        raise DeviceError(f"no quantization {place.quantization!r}; there is: {', '.join(QUANTIZATIONS)}")
    if place.quantization != "auto":
        return Precision(place.quantization)
    if "avx2" not in machine.cpu_flags():
        say("quantization auto: none, since int8 needs AVX2 to be faster")
        return Precision("none")
    return Precision("int8")


def _set_threads(place: Place) -> None:
    if place.threads:
        torch.set_num_threads(place.threads)
    set_team_cores(machine.usable_cores())


def make_encoder(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> EncoderRunner:
    """Loads the model in this process and sets torch's number of threads (0: leaves it)."""
    _set_threads(place)
    dtype = choose_dtype(place.dtype)
    precision = choose_precision(place)
    ops = CpuEncoderOps(dtype, precision)
    runner = EncoderRunner(PackedModel(card, ops), max_items, max_tokens)
    precision.conclude()
    say_torch_calls(ops.tape)
    return runner


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> DecoderRunner:
    """Loads a generator in this process and sets torch's number of threads (0: leaves it)."""
    _set_threads(place)
    dtype = choose_dtype(place.dtype)
    precision = choose_precision(place)
    ops = CpuDecodeOps(dtype, precision)
    runner = DecoderRunner.load(card, ops, slots, max_tokens)
    precision.conclude()
    say_torch_calls(ops.tape)
    return runner


def say_torch_calls(tape: Tape) -> None:
    """Logs which operations of a step are torch's: each takes Python's lock, and copies what it computes."""
    if tape.torch_calls:
        calls = ", ".join(f"{n} {what}" for what, n in sorted(tape.torch_calls.items()))
        say(f"each step calls torch {tape.torch_calls.total()} times: {calls}")
