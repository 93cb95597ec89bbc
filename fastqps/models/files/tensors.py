"""The safetensors files of a checkpoint, and their tensors by their headers. No numpy here: front doors import this."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.files.documents import parse_json
from fastqps.models.files.reading import has_file, open_regular, read_object
from fastqps.models.files.ways_out import about_weights

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

_HEADER_BYTES_MAX = 16 << 20
_TENSORS_MAX = 100_000
_SIZES_MAX, _SIZE_END = 64, 1 << 62  # of a shape
# Bytes of a number, by safetensors' names of the kinds that are read here.
_ITEM_BYTES: Mapping[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}


@dataclass(frozen=True)
class Tensor:
    """The place of a tensor in its file, and its kind."""

    file: Path
    name: str
    kind: str  # as safetensors names it: F32, F16, …
    shape: tuple[int, ...]
    offset: int  # bytes from the file's beginning


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name. ``ModelError`` where it is none, or is cut off."""
    try:
        with open_regular(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > min(size - 8, _HEADER_BYTES_MAX):
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header = parse_json(stream.read(length))
        if len(header) > _TENSORS_MAX:
            raise ValueError(f"{len(header)} tensors; {_TENSORS_MAX} are the most")
        tensors = {name: _tensor(file, name, entry, 8 + length, size) for name, entry in _entries(header)}
        _check_places(header, size - 8 - length)
        return tensors
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file}: not a safetensors file: {error}") from error


def _entries(header: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, entry) for name, entry in header.items() if name != "__metadata__"]


def _check_places(header: Mapping[str, Any], size: int) -> None:
    """``ValueError`` where two tensors share bytes, or the data are not as long as the tensors together."""
    ends = 0
    for name, (begin, end) in sorted(
        ((name, entry["data_offsets"]) for name, entry in _entries(header)), key=lambda entry: entry[1]
    ):
        if begin < ends:
            raise ValueError(f"tensor {name} begins before another one ends")
        ends = end
    if ends != size:
        raise ValueError(f"it has {size} bytes of data, and its tensors end at {ends}")


def _tensor(file: Path, name: str, entry: Mapping[str, Any], data: int, size: int) -> Tensor:
    kind, shape = str(entry["dtype"]), _sizes(name, entry, "shape")
    begin, end = _sizes(name, entry, "data_offsets")
    if kind in _ITEM_BYTES and end - begin != math.prod(shape) * _ITEM_BYTES[kind]:
        raise ValueError(f"tensor {name} of shape {shape} does not have {end - begin} bytes")
    if not begin <= end <= size - data:
        raise ValueError(f"tensor {name} ends behind the file's end")
    return Tensor(file, name, kind, shape, data + begin)


def _sizes(name: str, entry: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """A list of whole numbers."""
    sizes = entry[key]
    if not isinstance(sizes, list) or len(sizes) > _SIZES_MAX:
        raise ValueError(f"tensor {name}: {key} is no list of at most {_SIZES_MAX} numbers")
    for each in sizes:
        if type(each) is not int or not 0 <= each < _SIZE_END:
            raise ValueError(f"tensor {name}: {key} has {json.dumps(each)[:100]}, which is no possible size")
    return tuple(sizes)


def weight_files(root: Path, encoder: Path) -> list[Path]:
    """The files in the folder ``encoder`` of the checkpoint ``root``: one, or the shards that the index names.

    As in transformers, the index has no effect beside a whole file. ``ModelError`` if there are none.
    """
    single = encoder / WEIGHTS
    if has_file(single):
        return [single]
    index = encoder / INDEX
    if not has_file(index):
        raise ModelError(f"{root}: no model.safetensors{about_weights(encoder)}")
    listed = read_object(index).get("weight_map")
    if not isinstance(listed, dict) or not listed or not all(isinstance(name, str) for name in listed.values()):
        raise ModelError(f"{index}: weight_map has to name the file of each tensor")
    return [_shard(index, name) for name in sorted(set(listed.values()))]


def _shard(index: Path, name: str) -> Path:
    """``ModelError`` for a name that leads out of the folder of its index."""
    if not name or Path(name).name != name:
        raise ModelError(f"{index}: weight_map names {name!r}; a shard has to lie beside the index")
    if not has_file(path := index.parent / name):
        raise ModelError(f"{index}: weight_map names {name!r}, which is no file")
    return path
