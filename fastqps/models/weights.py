"""Reads a checkpoint's tensors by name, from one safetensors file or from shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from fastqps.models.card import ModelError

# Names of layer-norm tensors in checkpoints that were converted from TensorFlow.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


class Weights:
    """Tensors by name, as float32, without the prefix that a task model puts before its encoder's names."""

    def __init__(self, files: Sequence[Path], prefixes: Sequence[str] = ()) -> None:
        self.where = str(files[0].parent)
        self._tensors: dict[str, torch.Tensor] = {}
        self._read: set[str] = set()
        for file in files:
            try:
                tensors = load_file(file)
            except (OSError, SafetensorError) as error:
                raise ModelError(f"{file}: {error}") from error
            for name, tensor in tensors.items():
                self._tensors[self._plain(name, prefixes)] = tensor

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
        found = self.get(name)
        if found is None:
            raise ModelError(f"{self.where}: the checkpoint has no tensor {name!r}")
        if tuple(found.shape) != shape:
            raise ModelError(f"{self.where}: {name} has shape {tuple(found.shape)}, config.json says {shape}")
        return found

    def get(self, name: str) -> torch.Tensor | None:
        """The tensor as float32, or None."""
        self._read.add(name)
        found = self._tensors.get(name)
        return None if found is None else found.float()

    def unread(self) -> dict[str, torch.Tensor]:
        """What nobody has asked for yet, as it is in the files."""
        return {name: tensor for name, tensor in self._tensors.items() if name not in self._read}
