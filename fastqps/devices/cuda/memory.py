"""Checks a model's memory on a GPU before it is taken, and reports where it is too small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path

import torch

from fastqps._core import CudaError
from fastqps.errors import ConfigError, ModelError
from fastqps.models.card import ModelCard
from fastqps.models.files.tensors import read_tensors

_OUT_OF_MEMORY = ("out of memory", "cublas_status_alloc_failed", "cublas_status_not_initialized")


def is_out_of_memory(reason: str) -> bool:
    """Whether an error of torch, Triton or cuBLAS means that the GPU's memory is too small."""
    return any(sign in reason.lower() for sign in _OUT_OF_MEMORY)


def parameters(files: Sequence[Path]) -> int:
    """The number of elements in the tensors of safetensors files. Reads only their headers."""
    total = 0
    for path in files:
        total += sum(prod(tensor.shape) for tensor in read_tensors(path).values())
    return total


def kv_bytes(card: ModelCard, slots: int, itemsize: int) -> int:
    """The size of one lane's cache of this many sequences. (The prefix counts for each lane, though lanes share it.)"""
    return card.kv_numbers(slots) * itemsize


def check_weights(card: ModelCard, needed: int, free: int, where: str) -> None:
    """``ModelError`` where the weights, of ``needed`` bytes, do not fit into the ``free`` ones."""
    if needed > free:
        raise ModelError(
            f"{card.name}: its weights take {gib(needed)}, and {where} has {gib(free)} free: "
            "the checkpoint is too large"
        )


def check_cache(card: ModelCard, slots: int, needed: int, free: int, where: str) -> None:
    """``ConfigError`` where one more lane's KV cache, of ``needed`` bytes, does not fit into the ``free`` ones."""
    if needed > free:
        raise ConfigError(
            f"--max-running {slots}: the KV cache of one lane of {card.name} takes {gib(needed)}, and {where} has "
            f"{gib(free)} left; lower --max-running, --lanes, --max-input-tokens or --max-output-tokens"
        )


@contextmanager
def report_oom_of_steps(card: ModelCard, max_tokens: int, where: str) -> Iterator[None]:
    """Turns torch's report of too little memory, at a step's first run or its capture, into ``ConfigError``."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"--max-batch-tokens {max_tokens}: {where} has too little memory left for steps of {card.name} of that "
            f"size; lower it, --max-running, --lanes or --dispatchers ({reason})"
        ) from None


@contextmanager
def report_oom_of_host(card: ModelCard, where: str) -> Iterator[None]:
    """Turns CUDA's refusal of page-locked memory of the host into ``ConfigError``."""
    try:
        yield
    except CudaError as error:
        if error.call != "cudaHostAlloc":
            raise
        raise ConfigError(
            f"{where}: the host has no page-locked memory left for the steps of {card.name} ({error}); under MPS "
            "/dev/shm bounds it; lower --max-batch-tokens, --max-batch-items, --lanes or --dispatchers"
        ) from None


@contextmanager
def report_oom_of_weights(card: ModelCard, where: str) -> Iterator[None]:
    """Turns the lack of device memory while weights are loaded into ``ModelError``."""
    try:
        yield
    except (torch.OutOfMemoryError, CudaError) as error:
        if isinstance(error, CudaError) and error.call != "cudaMalloc":
            raise
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{card.name}: {where} has too little memory left for its weights ({reason})") from None


def gib(n: int) -> str:
    """A size for people."""
    return f"{n / (1 << 30):.1f} GiB" if n >= 1 << 30 else f"{n / (1 << 20):.1f} MiB"
