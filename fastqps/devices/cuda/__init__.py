"""NVIDIA GPUs: captured graphs of Triton kernels and cuBLAS, launched from C++.

* ``buckets``: which sizes of steps have a graph, and why.
* ``lane``: a stream, the static memory of its steps, its graphs.
* ``encoder``, ``decoder``: runners, each over pinned buffers of its own.
* ``static``: the table of a static model, which ``encoder`` runs.
* ``checked``: which operations are the own kernels, and which are plain torch.
* ``held``, ``arena``: weights that one process holds for all of a GPU.
* ``backend``: what they need of CUDA. ``torch_cuda`` is a GPU, ``fake`` a CPU that behaves like one, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fastqps.architectures.packed import PackedModel
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.checked import make_operations
from fastqps.devices.cuda.decoder import CudaDecoder, Decoder
from fastqps.devices.cuda.encoder import CudaEncoder
from fastqps.devices.cuda.held import await_held, build_over, hold
from fastqps.devices.cuda.loaded import Loaded, report_device_faults, starting
from fastqps.devices.cuda.memory import check_cache, check_weights, kv_bytes, parameters, report_oom_of_weights
from fastqps.devices.cuda.precision import make_precision
from fastqps.devices.cuda.static import StaticBags
from fastqps.devices.errors import DeviceError
from fastqps.devices.names import resolve_dtype
from fastqps.devices.place import Place, check_static_settings
from fastqps.devices.start_lock import alone_on
from fastqps.host.gpus import FAKE_LIBRARY
from fastqps.models.card import ModelCard
from fastqps.models.checkpoint import Checkpoint
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.encoder_ops import CudaEncoderOps
from fastqps.ops.cuda.operations import Operations
from fastqps.ops.parameters import Parameters
from fastqps.ops.precision import Precision
from fastqps.process.startup import STARTUP
from fastqps.runners.decoder import load_decoder, load_llama
from fastqps.runners.kinds import DECODE, ENCODE, StepKind, step_kind
from fastqps.runners.static import open_table


def open_backend(place: Place) -> Backend:
    """The GPU that ``place`` names. ``DeviceError`` where it is not there."""
    index = int(place.device.partition(":")[2] or 0)
    if library := os.environ.get(FAKE_LIBRARY):
        from fastqps.devices.cuda.fake import FakeCuda

        return FakeCuda(library, index)
    from fastqps.devices.cuda.torch_cuda import TorchCuda

    return TorchCuda(index)


_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def choose_dtype(name: str) -> torch.dtype:
    """Resolves ``auto``, which is bf16. Raises ``DeviceError`` for a type that the GPU cannot compute."""
    name = resolve_dtype("cuda", name)
    if name not in _DTYPES:
        raise DeviceError(f"device cuda has no dtype {name!r}; it has: auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]


@dataclass(frozen=True)
class _Source:
    """What a model is built of, in a type."""

    build: Callable[[torch.dtype, Parameters, Precision, Operations], Any]
    weight_bytes: Callable[[torch.dtype], int]


def make_encoder(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> CudaEncoder:
    """Loads an encoder onto the GPU. Raises ``DeviceError``, ``ModelError`` or ``ConfigError`` if that is
    impossible."""
    loaded = _load(card, place, _encoder(card, place), max_tokens)
    if isinstance(loaded.model, PackedModel):
        with loaded.starting(max_tokens):
            loaded.model.keep_opening()
    return CudaEncoder(loaded, max_items, max_tokens)


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> CudaDecoder:
    """Loads a generator onto the GPU. Raises ``DeviceError``, ``ModelError`` or ``ConfigError`` if that is
    impossible."""

    def build(*how: Any) -> Decoder:
        return Decoder(*load_decoder(card, CudaDecodeOps(*how), slots, max_tokens))

    source = _Source(build, partial(_weight_bytes, card))
    return CudaDecoder(_load(card, place, source, max_tokens, slots), slots, max_tokens)


def hold_weights(card: ModelCard, place: Place) -> None:
    """Loads a model's weights alone, for other processes to map. Raises as ``make_runner``."""
    source = _WEIGHTS[step_kind(card)](card, place)
    backend, dtype = _open(card, place)
    build, _ = _builder(card, place, source, backend, dtype)
    with alone_on(backend.uuid), report_oom_of_weights(card, backend.where), report_device_faults(backend):
        _check_weights(card, source, backend, dtype)
        hold(card, backend, place, dtype, build)


def _encoder(card: ModelCard, place: Place) -> _Source:
    if card.static:
        check_static_settings(card, place)
        files = open_table(card)
        return _Source(lambda _, where, __, kernels: StaticBags(files, where, kernels), lambda _: files.table.nbytes)

    def build(dtype: torch.dtype, where: Parameters, precision: Precision, kernels: Operations) -> PackedModel:
        return PackedModel(card, CudaEncoderOps(dtype, where, precision, kernels, card.max_input_tokens))

    return _Source(build, partial(_weight_bytes, card))


def _decoder(card: ModelCard, place: Place) -> _Source:
    """Without the state of sequences."""
    return _Source(lambda *how: load_llama(card, CudaDecodeOps(*how)), partial(_weight_bytes, card))


RUNNERS = {ENCODE: make_encoder, DECODE: make_decoder}
_WEIGHTS: dict[StepKind, Callable[[ModelCard, Place], _Source]] = {ENCODE: _encoder, DECODE: _decoder}


def _load(card: ModelCard, place: Place, source: _Source, max_tokens: int, slots: int = 0) -> Loaded[Any]:
    """The model over the weights that another process holds, or over its own. ``slots``: a decoder's sequences."""
    backend, dtype = _open(card, place)
    held = await_held(card, place, dtype)
    with starting(card, backend, max_tokens):
        left = _check_weights(card, source, backend, dtype) if held is None else backend.memory()[0]
        if slots:
            check_cache(card, slots, kv_bytes(card, slots, dtype.itemsize), left, backend.where)
        build, precision = _builder(card, place, source, backend, dtype)
        model = build_over(backend, held, build)
        precision.conclude()
    return Loaded(card, backend, model)


def _open(card: ModelCard, place: Place) -> tuple[Backend, torch.dtype]:
    if place.threads:
        torch.set_num_threads(place.threads)
    dtype = torch.float32 if card.static else choose_dtype(place.dtype)
    with STARTUP.stage("device"):
        return open_backend(place), dtype


def _builder(
    card: ModelCard, place: Place, source: _Source, backend: Backend, dtype: torch.dtype
) -> tuple[Callable[[Parameters], Any], Precision]:
    kernels = make_operations(place, backend)
    precision = Precision() if card.static else make_precision(place, backend)
    return lambda where: source.build(dtype, where, precision, kernels), precision


def _weight_bytes(card: ModelCard, dtype: torch.dtype) -> int:
    return parameters(Checkpoint.of(card).weight_files()) * dtype.itemsize


def _check_weights(card: ModelCard, source: _Source, backend: Backend, dtype: torch.dtype) -> int:
    """Free bytes that the weights will leave; ``ModelError`` where they do not fit."""
    free, _ = backend.memory()
    needed = source.weight_bytes(dtype)
    check_weights(card, needed, free, backend.where)
    return free - needed
