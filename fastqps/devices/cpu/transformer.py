"""Transformers on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from fastqps._core import set_team_cores, trim_memory
from fastqps.architectures.packed import PackedModel
from fastqps.devices.errors import DeviceError
from fastqps.devices.names import resolve_dtype
from fastqps.devices.place import Place
from fastqps.host import machine
from fastqps.models.card import ModelCard
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.matrix import multiplies
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.precision import QUANTIZATIONS, Precision
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner
from fastqps.terminal import say

_Ops = TypeVar("_Ops", bound=CpuOps)
_Runner = TypeVar("_Runner")
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
    return _load(place, CpuEncoderOps, lambda ops: EncoderRunner(PackedModel(card, ops), max_items, max_tokens))


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> DecoderRunner:
    """Loads a generator in this process and sets torch's number of threads (0: leaves it)."""
    return _load(place, CpuDecodeOps, lambda ops: DecoderRunner.load(card, ops, slots, max_tokens))


def _load(place: Place, make_ops: Callable[[torch.dtype, Precision], _Ops], load: Callable[[_Ops], _Runner]) -> _Runner:
    _set_threads(place)
    precision = choose_precision(place)
    ops = make_ops(choose_dtype(place.dtype), precision)
    runner = load(ops)
    precision.conclude()
    say_torch_calls(ops.tape)
    trim_memory()  # of weights as they were before they were packed: up to a third of what is kept
    return runner


def say_torch_calls(tape: Tape) -> None:
    """Logs which operations of a step are torch's: each takes Python's lock, and copies what it computes."""
    if tape.torch_calls:
        calls = ", ".join(f"{n} {what}" for what, n in sorted(tape.torch_calls.items()))
        say(f"each step calls torch {tape.torch_calls.total()} times: {calls}")
