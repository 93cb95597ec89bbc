"""The tensors of a safetensors file, mapped: processes that map the same file share its memory."""

from __future__ import annotations

import contextlib
import json
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastqps.models.card import ModelError

_HEADER_BYTES_MAX = 16 << 20
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


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies in its file, and of what kind it is."""

    file: Path
    name: str
    kind: str  # as safetensors names it: F32, F16, …
    shape: tuple[int, ...]
    offset: int  # bytes from the file's beginning

    def map(self) -> NDArray[Any]:
        """The numbers, read-only, in memory that is shared with every process that maps this file."""
        with self.file.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        with contextlib.suppress(OSError):  # of the kernels that have huge pages for files
            mapped.madvise(mmap.MADV_HUGEPAGE)
        mapped.madvise(mmap.MADV_WILLNEED)
        count = int(np.prod(self.shape))
        return np.frombuffer(mapped, _DTYPES[self.kind], count, self.offset).reshape(self.shape)

    def read(self) -> NDArray[np.float32]:
        """A small tensor as float32, in memory of this process. ``ModelError`` where a number is not finite."""
        found = self.map()
        self.check_finite(found)
        if self.kind == "BF16":
            return (found.astype(np.uint32) << 16).view(np.float32)
        return np.ascontiguousarray(found, np.float32)

    def check_finite(self, found: NDArray[Any]) -> None:
        """``ModelError`` where a number is infinite or NaN."""
        flat = found.reshape(-1)
        for begin in range(0, flat.size, _CHUNK_NUMBERS):
            chunk = flat[begin : begin + _CHUNK_NUMBERS]
            if self.kind == "BF16":
                finite = ((chunk & _BF16_EXPONENT) != _BF16_EXPONENT).all()
            else:
                finite = np.isfinite(chunk).all()
            if not finite:
                raise ModelError(f"{self.file}: tensor {self.name} holds NaN or infinity")


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name. ``ModelError`` where it is none, or is cut off."""
    try:
        with file.open("rb") as stream:
            size = file.stat().st_size
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > min(size - 8, _HEADER_BYTES_MAX):
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header = json.loads(stream.read(length))
        return {name: _tensor(file, name, entry, 8 + length, size) for name, entry in _entries(header)}
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file}: not a safetensors file: {error}") from error


def _entries(header: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, entry) for name, entry in header.items() if name != "__metadata__"]


def _tensor(file: Path, name: str, entry: Mapping[str, Any], data: int, size: int) -> Tensor:
    kind, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
    begin, end = (int(at) for at in entry["data_offsets"])
    if kind in _DTYPES:
        wanted = int(np.prod(shape, dtype=object)) * np.dtype(_DTYPES[kind]).itemsize
        if min(shape, default=1) < 0 or end - begin != wanted:
            raise ValueError(f"tensor {name} of shape {shape} does not have {end - begin} bytes")
    if not 0 <= begin <= end <= size - data:
        raise ValueError(f"tensor {name} ends behind the file's end")
    return Tensor(file, name, kind, shape, data + begin)
