"""The CPU. Transformers need torch; static models do without, and their processes stay small."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fastqps.devices.place import Place, check_static_settings
from fastqps.models.card import ModelCard
from fastqps.process.startup import STARTUP
from fastqps.runners import Runner
from fastqps.runners.kinds import DECODE, ENCODE
from fastqps.runners.static import load_static


def make_encoder(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> Runner[Any]:
    """Loads an encoder or a static model in this process."""
    if not card.static:
        encoder: Runner[Any] = _transformer().make_encoder(card, max_items, max_tokens, place)
        return encoder
    check_static_settings(card, place)
    return load_static(card, max_items, max_tokens, place.table_fd)


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> Runner[Any]:
    """Loads a generator in this process."""
    decoder: Runner[Any] = _transformer().make_decoder(card, slots, max_tokens, place)
    return decoder


def _transformer() -> ModuleType:
    with STARTUP.stage("imports"):
        from fastqps.devices.cpu import transformer
    return transformer


RUNNERS = {ENCODE: make_encoder, DECODE: make_decoder}
