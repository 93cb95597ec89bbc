"""Rotary positions: the angles by which a position turns each pair of numbers of queries and keys."""

from __future__ import annotations

import math

import torch

from fastqps.models.families.decoder import Rope


def rotary_table(rope: Rope, head_dim: int, positions: int) -> torch.Tensor:
    """cos and sin of every position and frequency: float32 [positions, 2, head_dim / 2]."""
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * _frequencies(rope, head_dim)
    return torch.stack((angles.cos(), angles.sin()), 1).contiguous()


def _frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """Radians per position of each pair; long waves are stretched by ``rope.factor`` where positions are scaled."""
    plain = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    if rope.kind == "default":
        return plain
    if rope.kind == "linear":
        return plain / rope.factor
    # llama3: waves shorter than context / high stay, those longer than context / low are stretched, between them both.
    turns = rope.original_context * plain / (2 * math.pi)
    share = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    share = share.clamp(0.0, 1.0)
    return (1 - share) * plain / rope.factor + share * plain
