"""The cost of a step's kernels on a GPU: launches, FLOPs and bytes, by the GPU's peaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Peaks:
    """The rates that a GPU reaches: of one large matrix product and of one large copy."""

    tflop_per_s: float = 0.0
    tb_per_s: float = 0.0

    def flops_us(self, flops: float) -> float:
        """The time of so many FLOPs."""
        return flops / self.tflop_per_s / 1e6 if flops else 0.0

    def bytes_us(self, moved: float) -> float:
        """The time of so many bytes."""
        return moved / self.tb_per_s / 1e6 if moved else 0.0


@dataclass(frozen=True)
class Kernel:
    """One kernel of a step, which runs ``launches`` times. FLOPs and bytes are those of one launch.

    A launch takes ``fixed_us`` and the longer of its FLOPs and its ``bytes``, then what its ``stored_bytes`` take: its
    results, where their stores do not overlap with its FLOPs. ``tb_share``: of the peak that its bytes reach.
    """

    name: str
    launches: int
    fixed_us: float = 0.0
    flops_per_token: float = 0.0
    flops_per_item: float = 0.0
    bytes: float = 0.0  # however few tokens there are: the weights of a product
    bytes_per_token: float = 0.0
    bytes_per_item: float = 0.0
    stored_bytes_per_token: float = 0.0
    stored_bytes_per_item: float = 0.0
    tb_share: float = 1.0

    @property
    def mixed(self) -> bool:
        """Whether the longer of FLOPs and bytes would depend on tokens and items at the same time."""
        flops = (self.flops_per_token, self.flops_per_item)
        both = [any(pair) for pair in zip(flops, (self.bytes_per_token, self.bytes_per_item), strict=True)]
        return any(flops) and all(both)

    @property
    def by_item(self) -> bool:
        """Whether the FLOPs, and so the bytes beside them, follow from the items."""
        return self.flops_per_item > 0

    def tokens_us(self, tokens: float, peaks: Peaks) -> float:
        """The part of all launches that depends on tokens."""
        loaded = self.bytes_per_token * tokens + (0.0 if self.by_item else self.bytes)
        return self._us(self.flops_per_token * tokens, loaded, self.stored_bytes_per_token * tokens, peaks)

    def items_us(self, items: float, peaks: Peaks) -> float:
        """The part of all launches that depends on items."""
        loaded = self.bytes_per_item * items + (self.bytes if self.by_item else 0.0)
        return self._us(self.flops_per_item * items, loaded, self.stored_bytes_per_item * items, peaks)

    def bends(self, peaks: Peaks) -> Iterator[float]:
        """The number of tokens (of items, if ``by_item``) from which on the FLOPs take longer than the bytes."""
        flops = self.flops_per_item if self.by_item else self.flops_per_token
        more = self.bytes_per_item if self.by_item else self.bytes_per_token
        faster_us = peaks.flops_us(flops) - peaks.bytes_us(more / self.tb_share)
        if self.bytes and faster_us > 0:
            yield peaks.bytes_us(self.bytes / self.tb_share) / faster_us

    def _us(self, flops: float, loaded: float, stored: float, peaks: Peaks) -> float:
        loaded_us = peaks.bytes_us(loaded / self.tb_share)
        return self.launches * (max(peaks.flops_us(flops), loaded_us) + peaks.bytes_us(stored / self.tb_share))
