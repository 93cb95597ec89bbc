"""What a model becomes when it is reloaded, and whether a server that runs can serve that."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from fastqps.config.units import format_bytes
from fastqps.models import ModelCard, ModelError
from fastqps.supervisor.plan import Plan, answer_bytes, memory_of, read_card
from fastqps.supervisor.room import Room, room_of

CARD_BYTES_MAX = 256 << 10  # csrc/core/layout.h: kCardBytes


class NextModel(NamedTuple):
    """``note``: what a restart of the server would make otherwise; "" for nothing."""

    card: ModelCard
    room: Room
    note: str


def next_model(server: Plan, now: ModelCard, path: str) -> NextModel:
    """The model that lies at ``path`` now, under the name that it has. Reads all its files: not on the loop's thread.

    ``ModelError``, ``ConfigError`` or ``DeviceError`` where it cannot be read, or not be served by this server: the
    room for ids and answers was settled when it started.
    """
    sizes = server.sizes()
    limit = min(server.config.max_input_tokens, sizes.max_tokens)
    card = read_card(now.name, path, dataclasses.replace(server.config, max_input_tokens=limit))
    if card.task != now.task:
        raise ModelError(f"{path}: it is there to {card.task}, and {now.name} to {now.task}; start a server for it")
    if answer_bytes(card) > sizes.answer_bytes:
        what = f"{card.dimensions} labels" if card.task == "classify" else f"{card.dimensions} dimensions"
        raise ModelError(
            f"{path}: an answer of {what} takes {format_bytes(answer_bytes(card))}, and the slots of this server have "
            f"{format_bytes(sizes.answer_bytes)} for it; start the server again with this model"
        )
    if len(card.to_json()) > CARD_BYTES_MAX:
        raise ModelError(f"{path}: the model's card is larger than {format_bytes(CARD_BYTES_MAX)}")
    for device in server.devices:
        device.check(card)
    cards = tuple(card if other.name == card.name else other for other in server.cards)
    room = room_of(card, server.config, memory_of(server.config, cards, server.devices))
    return NextModel(card, room, _shorter(server, path, card, limit))


def _shorter(server: Plan, path: str, card: ModelCard, limit: int) -> str:
    if card.max_input_tokens < limit or limit == server.config.max_input_tokens:
        return ""
    full = read_card(card.name, path, server.config).max_input_tokens
    if full <= limit:
        return ""
    return f"inputs of at most {limit} tokens, as the slots have room for; a restart would take {full}"
