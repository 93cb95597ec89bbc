"""NVIDIA GPUs: captured graphs of Triton kernels and cuBLAS, launched from C++.

* ``buckets``: which sizes of steps have a graph, and why.
* ``lane``: a stream, the static memory of its steps, its graphs.
* ``encoder``, ``decoder``: runners, each over pinned buffers of its own.
* ``static``: the table of a static model, which ``encoder`` runs.
* ``checked``: which operations are the own kernels, and which are plain torch.
* ``held``, ``arena``: weights that one process holds for all of a GPU.
* ``backend``: what they need of CUDA. ``open_backend`` chooses it: ``torch_cuda`` is a GPU, ``fake`` a CPU that behaves
  like one, for tests.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.architectures.llama import Llama
from fastqps.architectures.packed import PackedModel
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.checked import make_operations
from fastqps.devices.cuda.decoder import CudaDecoder, Decoder
from fastqps.devices.cuda.encoder import CudaEncoder
from fastqps.devices.cuda.held import await_held, build_over, hold
from fastqps.devices.cuda.loaded import Loaded, report_device_faults, starting
from fastqps.devices.cuda.memory import check_cache, check_weights, kv_bytes, parameters, report_oom_of_weights
from fastqps.devices.cuda.open_backend import open_backend
from fastqps.devices.cuda.precision import make_precision
from fastqps.devices.cuda.static import hold_static, make_static
from fastqps.devices.dtypes import resolve_dtype
from fastqps.devices.errors import DeviceError
from fastqps.devices.place import Place
from fastqps.devices.start_lock import alone_on
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

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def choose_dtype(name: str) -> torch.dtype:
    """Resolves ``auto``, which is bf16. Raises ``DeviceError`` for a type that the GPU cannot compute."""
    name = resolve_dtype("cuda", name)
    if name not in _DTYPES:
        raise DeviceError(f"device cuda has no dtype {name!r}; it has: auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]


def make_encoder(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> CudaEncoder:
    """Loads an encoder onto the GPU. Raises ``DeviceError``, ``ModelError`` or ``ConfigError`` if that is
    impossible."""
    if card.static:
        return make_static(card, max_items, max_tokens, place)
    backend, dtype = _open(place)
    held = await_held(card, place, dtype)
    with starting(card, backend, max_tokens):
        if held is None:
            _check_weights(card, backend, dtype)
        kernels = make_operations(place, backend)
        precision = make_precision(place, backend)

        def load(where: Parameters) -> PackedModel:
            return PackedModel(card, CudaEncoderOps(dtype, where, precision, kernels, card.max_input_tokens))

        model = build_over(backend, held, load)
        precision.conclude()
    return CudaEncoder(Loaded(card, backend, model), max_items, max_tokens)


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> CudaDecoder:
    """Loads a generator onto the GPU. Raises ``DeviceError``, ``ModelError`` or ``ConfigError`` if that is
    impossible."""
    backend, dtype = _open(place)
    held = await_held(card, place, dtype)
    with starting(card, backend, max_tokens):
        left = _check_weights(card, backend, dtype) if held is None else backend.memory()[0]
        check_cache(card, slots, kv_bytes(card, slots, dtype.itemsize), left, backend.where)
        kernels = make_operations(place, backend)
        precision = make_precision(place, backend)

        def load(where: Parameters) -> Decoder:
            return Decoder(*load_decoder(card, CudaDecodeOps(dtype, where, precision, kernels), slots, max_tokens))

        decoder = build_over(backend, held, load)
        precision.conclude()
    return CudaDecoder(Loaded(card, backend, decoder), slots, max_tokens)


def hold_weights(card: ModelCard, place: Place) -> None:
    """Loads a model's weights alone, for other processes to map. Raises as ``make_runner``."""
    if card.static:
        hold_static(card, place)
        return
    backend, dtype = _open(place)
    kernels = make_operations(place, backend)
    precision = make_precision(place, backend)

    def load(where: Parameters) -> object:
        return _WEIGHTS[step_kind(card)](card, dtype, where, precision, kernels)

    with alone_on(backend.uuid), report_oom_of_weights(card, backend.where), report_device_faults(backend):
        _check_weights(card, backend, dtype)
        hold(card, backend, place, dtype, load)


def _encoder(
    card: ModelCard, dtype: torch.dtype, where: Parameters, precision: Precision, kernels: Operations
) -> PackedModel:
    return PackedModel(card, CudaEncoderOps(dtype, where, precision, kernels))


def _decoder(
    card: ModelCard, dtype: torch.dtype, where: Parameters, precision: Precision, kernels: Operations
) -> Llama:
    return load_llama(card, CudaDecodeOps(dtype, where, precision, kernels))


RUNNERS = {ENCODE: make_encoder, DECODE: make_decoder}
# Load the model alone, without the state of sequences.
_WEIGHTS: dict[StepKind, Callable[..., object]] = {ENCODE: _encoder, DECODE: _decoder}


def _open(place: Place) -> tuple[Backend, torch.dtype]:
    if place.threads:
        torch.set_num_threads(place.threads)
    dtype = choose_dtype(place.dtype)
    with STARTUP.stage("device"):
        return open_backend(place), dtype


def _check_weights(card: ModelCard, backend: Backend, dtype: torch.dtype) -> int:
    """Free bytes that the weights will leave; ``ModelError`` where they do not fit."""
    free, _ = backend.memory()
    needed = parameters(Checkpoint.of(card).weight_files()) * dtype.itemsize
    check_weights(card, needed, free, backend.where)
    return free - needed
