"""The parts of a decoder's step that are not matrix products: what a device has to bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from fastqps.models.decode_step import DecodeState, DecodeStep


@dataclass(frozen=True)
class Heads:
    """The shape of a layer's attention. ``rotary`` is float32 [positions, 2, head_dim / 2], cos and sin."""

    heads: int
    kv_heads: int
    head_dim: int
    rotary: torch.Tensor
    q_norm: torch.Tensor | None  # float32 [head_dim]: root mean square norms of each query and key, before they turn
    k_norm: torch.Tensor | None
    eps: float


class DecodeOps(Protocol):
    """Everything is computed in fp32; what is read and written has the model's type."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """x [rows, width] → [rows, width]; ``weight`` is float32 [width]."""

    def embed(self, table: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        """The row of ``table`` [vocabulary, width] for each token, carried over ones included: [T, width]."""

    def attend(
        self,
        qkv: torch.Tensor,
        heads: Heads,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        """Keeps the keys and values of all rows in ``cache`` and attends; ``cache`` and ``prefix`` are one layer's.

        qkv [T, (heads + 2 kv_heads) · head_dim] → [T, heads · head_dim], or with ``last_rows`` [S, heads · head_dim] of
        each run's last row alone. A row sees the prefix and its own cache slot up to itself.
        """

    def gated_silu(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, 2 · inner], gate and up → silu(gate) · up [rows, inner]."""

    def admit(self, records: torch.Tensor, state: DecodeState) -> None:
        """Keeps parameters of new sequences, int32 [n, ADMITTED_WORDS], as csrc/step/decode_layout.h has them."""

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        """logits [S, vocabulary] → ``tokens``, ``logprobs`` and ``finish`` of the step, and ``last_token``."""
