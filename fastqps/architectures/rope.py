"""Rotary positions: the angles by which a position turns each pair of numbers of queries and keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

from fastqps.models.families.rope import LinearRope, Llama3Rope, LongRope, Rope, YarnRope


def rotary_tables(
    ropes: Sequence[Rope | None], head_dim: int, positions: int, keep: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor | None]:
    """The kept table of each layer; None where it knows no positions. Layers with the same rope share one."""
    tables = {rope: keep(rotary_table(rope, head_dim, positions)) for rope in ropes if rope}
    return [tables[rope] if rope else None for rope in ropes]


def rotary_table(rope: Rope, head_dim: int, positions: int) -> torch.Tensor:
    """cos and sin of every position and pair: float32 [positions, 2, head_dim / 2].

    Pairs are the same place in both halves of a head, as ``turned_order`` puts them.
    """
    frequencies, factor = _frequencies(rope, rope.turned(head_dim))
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
    unturned = 0, head_dim // 2 - len(frequencies)
    cos, sin = F.pad(angles.cos() * factor, unturned, value=1.0), F.pad(angles.sin() * factor, unturned)
    return torch.stack((cos, sin), 1).contiguous()


def turned_order(rope: Rope | None, head_dim: int) -> list[int] | None:
    """Where only a part of a head is turned: its columns in the order in which its halves turn against each other.

    The same order of the columns of queries and keys changes no score. None: they are so already.
    """
    if rope is None or rope.turned(head_dim) == head_dim:
        return None
    turned, half = rope.turned(head_dim), rope.turned(head_dim) // 2
    rest = (head_dim - turned) // 2
    columns = list(range(head_dim))
    return columns[:half] + columns[turned : turned + rest] + columns[half:turned] + columns[turned + rest :]


def _frequencies(rope: Rope, turned: int) -> tuple[torch.Tensor, float]:
    """Radians per position of each pair of ``turned`` numbers, and by what cos and sin are multiplied."""
    waves = rope.theta ** (torch.arange(0, turned, 2, dtype=torch.float32) / turned)
    match rope:
        case LongRope():
            return 1.0 / (torch.tensor(rope.factors) * waves), rope.attention_factor
        case YarnRope():
            stretched = _stretched_share(rope, turned)
            return stretched / (rope.factor * waves) + (1 - stretched) / waves, rope.attention_factor
        case Llama3Rope():
            # Waves shorter than context / high stay, those longer than context / low are stretched, between them both.
            plain = 1.0 / waves
            turns = rope.original_context * plain / (2 * math.pi)
            share = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
            share = share.clamp(0.0, 1.0)
            return (1 - share) * plain / rope.factor + share * plain, 1.0
        case LinearRope():
            return 1.0 / waves / rope.factor, 1.0
    return 1.0 / waves, 1.0


def _stretched_share(rope: YarnRope, turned: int) -> torch.Tensor:
    """By pair: 0 where a wave stays, 1 where it is stretched."""

    def pair(turns: float) -> float:
        """The pair that turns so often in the original context."""
        return turned * math.log(rope.original_context / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = pair(rope.beta_fast), pair(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, turned - 1)
    span = high - low if high != low else 0.001
    return ((torch.arange(turned // 2, dtype=torch.float32) - low) / span).clamp(0, 1)
