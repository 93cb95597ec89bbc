"""Where a device keeps a model's parameters: each by itself, or all in one block that other processes can map."""

from __future__ import annotations

import hashlib

import torch

from fastqps.errors import ModelError

_ALIGN = 256


class Parameters:
    """Each in memory of its own on ``device``."""

    reads = True  # False: what a tensor holds is not looked at, and weights on `meta` will do

    def __init__(self, device: str | torch.device) -> None:
        self.device = torch.device(device)
        self._kept: dict[int, torch.Tensor] = {}  # by identity: a tensor that is kept already is kept once

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device, contiguous and in its own type."""
        if self._kept.get(id(tensor)) is tensor:
            return tensor
        kept = self._place(tensor)
        self._kept[id(kept)] = kept
        return kept

    def _place(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device).contiguous()


class SharedParameters(Parameters):
    """One behind the other in ``block``, uint8 [bytes], in the order in which a model is built.

    That order depends on nothing but the checkpoint and the settings, so whoever builds the same model over the same
    block finds each parameter where the one that has written them put it; ``layout`` proves that it was the same.
    """

    def __init__(self, block: torch.Tensor, write: bool) -> None:
        super().__init__(block.device)
        self._block, self._write = block, write
        self._layout = hashlib.sha256()
        self.reads = write
        self.used_bytes = 0

    @classmethod
    def measuring(cls) -> SharedParameters:
        """Over a block that is as large as any and takes no memory: for a model that is built for its size alone."""
        return cls(torch.empty(1 << 44, dtype=torch.uint8, device="meta"), write=False)

    @property
    def layout(self) -> str:
        """Hex digits that are equal where types and shapes were, in their order."""
        return self._layout.hexdigest()[:16]

    def _place(self, tensor: torch.Tensor) -> torch.Tensor:
        begin = -(-self.used_bytes // _ALIGN) * _ALIGN
        self.used_bytes = begin + tensor.numel() * tensor.element_size()
        if self.used_bytes > len(self._block):
            raise ModelError(f"the model's parameters do not fit in the {len(self._block)} bytes that are shared")
        self._layout.update(f"{tensor.dtype} {list(tensor.shape)}\n".encode())
        view = self._block[begin : self.used_bytes].view(tensor.dtype).view(tensor.shape)
        return view.copy_(tensor) if self._write else view
