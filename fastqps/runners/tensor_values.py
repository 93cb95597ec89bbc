"""The numbers of a safetensors file, mapped: processes that map the same file share its memory."""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastqps.models.card import ModelError
from fastqps.models.files.regular import open_regular
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


def map_tensor(tensor: Tensor) -> NDArray[Any]:
    """A tensor's numbers, read-only."""
    with open_regular(tensor.file) as stream:
        mapped = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
    with contextlib.suppress(OSError):  # of the kernels that have huge pages for files
        mapped.madvise(mmap.MADV_HUGEPAGE)
    mapped.madvise(mmap.MADV_WILLNEED)
    return np.frombuffer(mapped, _DTYPES[tensor.kind], math.prod(tensor.shape), tensor.offset).reshape(tensor.shape)


def read_floats(tensor: Tensor) -> NDArray[np.float32]:
    """A small tensor as float32, in memory of this process. ``ModelError`` where a number is not finite."""
    found = map_tensor(tensor)
    check_finite(tensor, found)
    if tensor.kind == "BF16":
        return (found.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(found, np.float32)


def check_finite(tensor: Tensor, found: NDArray[Any]) -> None:
    """``ModelError`` where one of the tensor's numbers is infinite or NaN."""
    flat = found.reshape(-1)
    for begin in range(0, flat.size, _CHUNK_NUMBERS):
        chunk = flat[begin : begin + _CHUNK_NUMBERS]
        bits = chunk & _BF16_EXPONENT if tensor.kind == "BF16" else None
        finite = np.isfinite(chunk) if bits is None else bits != _BF16_EXPONENT
        if not finite.all():
            raise ModelError(f"{tensor.file}: tensor {tensor.name} holds NaN or infinity")
