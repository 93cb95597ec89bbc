"""What one layer's attention computes, whatever device computes it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fastqps.kernels.results import check_contiguous


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of rows [rows, (heads + 2 · kv_heads) · size]: queries, keys and values.

    Raises ``ValueError`` where parts exclude each other, or a tensor is not contiguous.
    """

    heads: int
    kv_heads: int  # those that heads share, in their order
    rotary: torch.Tensor | None = None  # float32 [positions, 2, size / 2]: cos and sin by which queries and keys turn
    q_norm: torch.Tensor | None = None  # float32 [size]: root mean square norms of each query and key, before they turn
    k_norm: torch.Tensor | None = None
    eps: float = 0.0  # of both norms
    window: int = 0  # a row sees only those at most so many positions away; 0: all
    causal: bool = False  # a row sees none behind itself
    # float32 [heads, 2 · reach + 1], added to the scores: at reach + d for a key d rows before its query
    bias: torch.Tensor | None = None
    # two vectors for each distance: the score of a query and a key has the query's product with the first, and the
    # key's with the second; as the device's ``EncoderOps.relative`` makes them
    relative: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} of keys and values")
        if self.q_norm is not None and self.rotary is None:
            raise ValueError("norms of queries and keys are computed together with rotary positions alone")
        if self.relative is not None and (self.rotary is not None or self.bias is not None):
            raise ValueError("tables by distance exclude rotary positions and biases")
        check_contiguous(rotary=self.rotary, bias=self.bias, relative=self.relative)
        check_contiguous(q_norm=self.q_norm, k_norm=self.k_norm)

    def size(self, qkv: torch.Tensor) -> int:
        """The width of a head of ``qkv``."""
        return qkv.shape[1] // (self.heads + 2 * self.kv_heads)
