"""Reads a checkpoint's tensors by name, from one safetensors file or from shards.

What is read is copied out of the files, which are mapped: what is written to them later changes no answer, and a file
that becomes shorter ends no process that has read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from fastqps.architectures.tensor_files import load_tensors
from fastqps.errors import ModelError
from fastqps.models.adapters import ADAPTER_WEIGHTS, Adapter
from fastqps.ops.fp8 import E4M3, Quantised, Weight

# Names of layer-norm tensors in checkpoints that were converted from TensorFlow.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


class Weights:
    """Tensors by name, as float32, without the prefix that a task model puts before its encoder's names.

    A tensor X is quantised where it is float8_e4m3fn and X_scale says by what its rows are multiplied.
    """

    def __init__(
        self,
        files: Sequence[Path],
        prefixes: Sequence[str] = (),
        data: bool = True,
        adapter: Adapter | None = None,
        transposed: str = "",
    ) -> None:
        """Opens the files, and merges the ``adapter``.

        ``transposed``: what stands before the names of weights that are [inputs, outputs]; "" if none are.
        Without ``data`` it reads only names, shapes and types, and the tensors are on ``meta``.
        """
        self.where = str(files[0].parent)
        self._tensors: dict[str, torch.Tensor] = {}
        self._read: set[str] = set()
        origins: dict[str, str] = {}  # names as the files have them
        for file in files:
            for name, tensor in load_tensors(file, data).items():
                plain = self._plain(name, prefixes)
                origin = f"{name!r} of {file.name}"
                if plain in origins:
                    raise ModelError(f"{self.where}: {origins[plain]} and {origin} are the same tensor of the model")
                self._tensors[plain] = tensor
                origins[plain] = origin
        self._adapter = adapter
        self._added: frozenset[str] = frozenset()
        if adapter:
            self._added = merge(adapter, self._tensors, lambda name: self._plain(name, prefixes), data, transposed)

    @staticmethod
    def _plain(name: str, prefixes: Sequence[str]) -> str:
        for old, new in _OLD_ENDINGS.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        for prefix in prefixes:
            if name.startswith(prefix):
                return name[len(prefix) :]
        return name

    def __call__(self, name: str, *shape: int) -> torch.Tensor:
        """The tensor as float32; ``ModelError`` if it is missing or has not that shape."""
        tensor = self.get(name)
        if tensor is None:
            raise ModelError(f"{self.where}: the checkpoint has no tensor {name!r}")
        if tuple(tensor.shape) != shape:
            raise ModelError(f"{self.where}: {name} has shape {tuple(tensor.shape)}, config.json says {shape}")
        return tensor

    def rows(self, name: str, numbers: Sequence[int], *shape: int) -> torch.Tensor:
        """These rows of the tensor ``name`` of ``shape``, as float32, without a copy of the others."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.dtype.itemsize == 1 or tuple(tensor.shape) != shape:
            return self(name, *shape)[list(numbers)]
        self._read.add(name)
        return tensor[list(numbers)].to(torch.float32)

    def get(self, name: str) -> torch.Tensor | None:
        """The tensor as float32, or None."""
        self._read.add(name)
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        if tensor.dtype.itemsize == 1:
            return self._quantised(name, tensor).dequantised()
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"{self.where}: {name} is {kind}; weights are floats")
        return tensor.to(torch.float32, copy=True)

    def matrix(self, name: str, outputs: int, inputs: int) -> Weight:
        """The weight of a product: as the file has it where that is quantised, else as float32."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.dtype.itemsize > 1 or tuple(tensor.shape) != (outputs, inputs):
            return self(name, outputs, inputs)
        self._read.add(name)
        return self._quantised(name, tensor)

    def _quantised(self, name: str, tensor: torch.Tensor) -> Quantised:
        """A quantised tensor. ``ModelError`` where it is not FP8, or has not one scale for all rows or one for each."""
        scales = self._tensors.get(f"{name}_scale")
        if tensor.dtype != E4M3 or scales is None:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"{self.where}: {name} is {kind}{'' if scales is not None else ' without scales'}")
        if scales.numel() not in (1, len(tensor)) or scales.dtype.itemsize == 1 or not scales.is_floating_point():
            kind = f"{str(scales.dtype).removeprefix('torch.')} scales of shape {tuple(scales.shape)}"
            raise ModelError(
                f"{self.where}: {name} of shape {tuple(tensor.shape)} has {kind}; "
                "one float for all or one for each row is supported"
            )
        if not scales.is_meta and not scales.isfinite().all():
            raise ModelError(f"{self.where}: {name}_scale holds what is no number, or infinite")
        self._read.add(f"{name}_scale")
        return Quantised(
            tensor.clone(), scales.to(torch.float32, copy=True).reshape(-1).expand(len(tensor)).contiguous()
        )

    def check_tied(self, own: str, other: str) -> None:
        """Refuses two tensors that differ where the configuration ties them: transformers' versions differ in it."""
        first, second = self.get(own), self.get(other)
        if first is None or second is None or first.is_meta or torch.equal(first, second):
            return
        raise ModelError(
            f"{self.where}: config.json ties the head to the table of words, and the checkpoint has a {own} that "
            f"differs from {other}; write tie_word_embeddings false if the head is its own, or take the tensor out"
        )

    def close(self) -> None:
        """Lets go of the files, which a part of the model that keeps these weights would else keep in memory.

        ``ModelError`` where the adapter has a tensor that neither its base has nor the model, now made, has read. A
        tensor that is new and read is one of a head that the adapter brings.
        """
        self._tensors.clear()
        if self._adapter and (names := self._added - self._read):
            root = self._adapter.root
            raise ModelError(f"{root}: the adapter replaces {min(names)}, and its base has no such tensor")

    def unread(self) -> dict[str, torch.Tensor]:
        """The tensors that were not read yet, as they are in the files."""
        return {name: tensor for name, tensor in self._tensors.items() if name not in self._read}

    def check_unread(self, at: str, layers: int, *, more_layers: bool = True, buffers: tuple[str, ...] = ()) -> None:
        """``ModelError`` where a layer holds a weight or bias that nobody has asked for: its model would be another.

        Tensors of zeros change nothing. ``at``: what stands before a layer's number in names. ``more_layers``: whether
        there may be layers behind the first ``layers``; transformers leaves them out. ``buffers``: tensors of a layer
        that are none of its weights.
        """
        for name, tensor in self.unread().items():
            number, _, own = name.removeprefix(at).partition(".")
            if not name.startswith(at) or not number.isdecimal() or own in buffers:
                continue
            there = f"{self.where}: the checkpoint has a tensor {name!r}"
            if int(number) >= layers:
                if more_layers:
                    continue
                raise ModelError(f"{there}, but config.json says num_hidden_layers {layers}")
            if name.endswith((".weight", ".bias")) and not tensor.is_meta and tensor.any():
                raise ModelError(f"{there}, for which config.json's model has no place")


Tensors = dict[str, torch.Tensor]


def merge(
    adapter: Adapter, tensors: Tensors, plain: Callable[[str], str], data: bool, transposed: str
) -> frozenset[str]:
    """Changes ``tensors``, by the names that ``plain`` makes of transformers' names. Returns the names that it adds.

    Without ``data`` only shapes are checked, and new tensors are on ``meta``. Raises ``ModelError`` where the
    adapter is for another model.
    """
    loaded = load_tensors(adapter.root / ADAPTER_WEIGHTS, data)
    added = frozenset(map(plain, adapter.replaced)) - tensors.keys()
    for name, tensor in adapter.replaced.items():
        tensors[plain(name)] = loaded[tensor.name]
    for name, update in adapter.updates.items():
        at = plain(name)
        base, across = tensors.get(at), update.table or bool(transposed and at.startswith(transposed))
        _check(adapter, name, update.shape[::-1] if across else update.shape, base)
        if data and base is not None:
            change = loaded[update.up.name].float() @ loaded[update.down.name].float() * update.scale
            tensors[at] = base.float() + (change.T if across else change)
    return added


def _check(adapter: Adapter, name: str, shape: tuple[int, int], base: torch.Tensor | None) -> None:
    if base is None:
        raise ModelError(f"{adapter.root}: the adapter changes {name}, and its base has no such tensor")
    if base.dtype.itemsize == 1:
        raise ModelError(f"{adapter.root}: the base's {name} is quantised; adapters are merged into floats alone")
    if tuple(base.shape) != shape:
        raise ModelError(
            f"{adapter.root}: the adapter changes {name} of shape {list(shape)}, and its base has {list(base.shape)}"
        )
