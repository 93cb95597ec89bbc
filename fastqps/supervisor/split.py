"""How many dispatchers share the cores on the device cpu."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fastqps.config import Config
from fastqps.config.decide import most_dispatchers
from fastqps.host import machine
from fastqps.models import ModelCard

# A step of a larger generator takes as long as reading its weights, which threads of one dispatcher share.
GENERATOR_BYTES_MAX = 96 << 20
_MEMORY_SHARE = 4  # the weights of all dispatchers together take at most one part in so many


def dispatchers_on_cpu(config: Config, cards: Sequence[ModelCard]) -> int:
    """The dispatchers of each model: one for each core, or half as many with more threads each.

    Half as many where a model is a large generator, where the memory would not hold so many copies of the weights, and
    for static models alone, which compute in one thread.
    """
    most = most_dispatchers(config)
    weight_bytes = {card.name: _weight_bytes(card) for card in cards}
    large = any(card.task == "generate" and weight_bytes[card.name] > GENERATOR_BYTES_MAX for card in cards)
    fit = most * sum(weight_bytes.values()) * _MEMORY_SHARE <= machine.memory_bytes()
    return most if fit and not large and not all(card.static for card in cards) else max(1, most // 2)


def _weight_bytes(card: ModelCard) -> int:
    return sum(file.stat().st_size for file in Path(card.path).rglob("*.safetensors"))
