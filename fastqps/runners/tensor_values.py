"""The numbers of a safetensors file, copied: what is written to the file while a server runs changes no answer."""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastqps.errors import ModelError
from fastqps.models.files.reading import open_regular
from fastqps.models.files.tensors import Tensor

# bf16 has no type in numpy: its bits are read as uint16.
_DTYPES: Mapping[str, type[np.generic]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "I64": np.int64,
    "I32": np.int32,
    "I8": np.int8,
}
_CHUNK_NUMBERS = 1 << 22  # that are looked at together
_BF16_EXPONENT = 0x7F80  # all ones: infinity or NaN


def read_values(tensor: Tensor) -> NDArray[Any]:
    """A tensor's numbers, read-only, in memory of this process.

    ``ModelError`` where the file has become shorter than its header said.
    """
    memory = mmap.mmap(-1, max(1, _bytes(tensor)), flags=mmap.MAP_PRIVATE)
    _advise(memory)
    _fill(memory, tensor)
    return _numbers(memory, tensor)


def share_values(tensor: Tensor, fd: int, check: Callable[[], None]) -> NDArray[Any]:
    """Reads a tensor like ``read_values``, once for all processes with the same ``fd``.

    ``fd``: a file in memory, empty or of this tensor.

    The first process writes it. Its last byte, behind the numbers, is there when they all are, and ``check`` has not
    raised.
    """
    size = _bytes(tensor)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    try:
        if os.fstat(fd).st_size <= size:
            os.ftruncate(fd, size)
            with mmap.mmap(fd, size) as memory:
                _advise(memory)
                _fill(memory, tensor)
            check()
            os.ftruncate(fd, size + 1)
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)
    return _numbers(mmap.mmap(fd, size, prot=mmap.PROT_READ), tensor)


def _bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * np.dtype(_DTYPES[tensor.kind]).itemsize


def _advise(memory: mmap.mmap) -> None:
    with contextlib.suppress(OSError):  # of the kernels that have huge pages for such memory
        memory.madvise(mmap.MADV_HUGEPAGE)


def _fill(memory: mmap.mmap, tensor: Tensor) -> None:
    size = _bytes(tensor)
    with open_regular(tensor.file) as stream, memoryview(memory) as room, room[:size] as part:
        stream.seek(tensor.offset)
        if stream.readinto(part) != size:
            raise ModelError(f"{tensor.file}: it has become shorter while tensor {tensor.name} was read")


def _numbers(memory: mmap.mmap, tensor: Tensor) -> NDArray[Any]:
    numbers = np.frombuffer(memory, _DTYPES[tensor.kind], math.prod(tensor.shape)).reshape(tensor.shape)
    numbers.flags.writeable = False
    return numbers


def read_floats(tensor: Tensor) -> NDArray[np.float32]:
    """A small tensor as float32. ``ModelError`` where a number is not finite."""
    values = read_values(tensor)
    check_finite(tensor, values)
    if tensor.kind == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(values, np.float32)


def check_finite(tensor: Tensor, values: NDArray[Any]) -> None:
    """``ModelError`` where one of the tensor's numbers is infinite or NaN."""
    flat = values.reshape(-1)
    for begin in range(0, flat.size, _CHUNK_NUMBERS):
        chunk = flat[begin : begin + _CHUNK_NUMBERS]
        bits = chunk & _BF16_EXPONENT if tensor.kind == "BF16" else None
        finite = np.isfinite(chunk) if bits is None else bits != _BF16_EXPONENT
        if not finite.all():
            raise ModelError(f"{tensor.file}: tensor {tensor.name} holds NaN or infinity")
