"""Reads all tensors of a safetensors file into torch, or their shapes alone."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from fastqps.errors import ModelError
from fastqps.models.files.reading import open_regular
from fastqps.models.files.tensors import read_tensors

# The types that safetensors names.
_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def load_tensors(file: Path, data: bool = True) -> dict[str, torch.Tensor]:
    """The tensors by name; without ``data`` they are on ``meta``. ``ModelError`` where it is no safetensors file, or
    has a tensor of an unknown type."""
    header = read_tensors(file)  # first: safetensors would wait for a pipe, and takes a header of any kind
    for tensor in header.values():
        if tensor.kind not in _TYPES:
            raise ModelError(f"{file}: tensor {tensor.name} is of the unknown type {tensor.kind[:20]}")
    if not data:
        return {
            name: torch.empty(tensor.shape, dtype=_TYPES[tensor.kind], device="meta") for name, tensor in header.items()
        }
    try:
        with open_regular(file) as stream:  # by its descriptor: another file may have taken its name meanwhile
            return load_file(f"/proc/self/fd/{stream.fileno()}")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file}: {error}") from error
