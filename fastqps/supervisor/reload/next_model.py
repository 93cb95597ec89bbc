"""Loads a model's next version and checks that the running server can serve it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fastqps.config.units import format_bytes
from fastqps.host import machine
from fastqps.models import ModelCard, ModelError
from fastqps.models.files.deciding_files import shape_of
from fastqps.supervisor.plan import Plan, answer_bytes, fetch_again, memory_of, read_card
from fastqps.supervisor.room import Room, format_size, room_of
from fastqps.telemetry.metrics.usage import private_bytes


class NextModel(NamedTuple):
    """The next version of a model. ``note``: how a restart of the server would differ; "" if it would not.
    ``shape``: that of its files."""

    card: ModelCard
    room: Room
    note: str
    shape: str


def next_model(server: Plan, now: ModelCard, path: str) -> NextModel:
    """Loads the model at ``path`` under its present name. Reads all its files, so do not call it on the loop's thread.

    Raises ``ModelError``, ``ConfigError`` or ``DeviceError`` if it cannot be read or does not fit this server, whose
    slots have a fixed size.
    """
    sizes = server.sizes()
    fetch_again(now.name, path, server.config)
    card = read_card(now.name, path, server.config)
    full = card.max_input_tokens
    if full > sizes.max_tokens:
        card = read_card(now.name, path, dataclasses.replace(server.config, max_input_tokens=sizes.max_tokens))
    if card.generates and now.generates and server.config.max_output_tokens is None:
        card = dataclasses.replace(card, max_output_tokens=min(card.max_output_tokens, now.max_output_tokens))
    if card.task != now.task:
        raise ModelError(f"{path}: it is there to {card.task}, and {now.name} to {now.task}; start a server for it")
    if now.tokenizer and not card.tokenizer:
        raise ModelError(f"{path}: it has no tokenizer.json, and {now.name} has one: who sends texts would be refused")
    answer_max = max(sizes.answer_bytes, sizes.large_answer_bytes if card.traits.by_token else 0)
    if answer_bytes(card) > answer_max:
        raise ModelError(
            f"{path}: an answer of {_content(card)} takes {format_bytes(answer_bytes(card))}, and the slots of this "
            f"server have {format_bytes(answer_max)} for it; start the server again with this model"
        )
    if not server.config.allow_output_change and (changed := _changed(now, card)):
        raise ModelError(f"{path}: {changed}; --allow-output-change lets a reload do that")
    for device in server.devices:
        device.check(card)
    cards = tuple(card if other.name == card.name else other for other in server.cards)
    room = room_of(card, server.config, memory_of(server.config, cards, server.devices))
    notes = (_shorter(card, full), _measured(server, card))
    return NextModel(card, room, "; ".join(filter(None, notes)), shape_of(Path(card.path)))


def check_memory(pids: Iterable[int]) -> None:
    """Checks that there is memory for a second set of the serving generation's dispatchers.

    Raises ``ModelError`` if not. Otherwise the kernel would soon kill a process, and not always a new one.
    """
    needed, free = sum(map(private_bytes, pids)), machine.memory_bytes() - machine.memory_used_bytes()
    if needed > free:
        raise ModelError(
            f"its dispatchers would need about {format_size(needed)} of memory beside those that serve, and "
            f"{format_size(max(0, free))} are free"
        )


def _content(card: ModelCard) -> str:
    """What the model's longest answer consists of."""
    width, tokens, by_token = card.dimensions, card.max_input_tokens, card.traits.by_token
    match card.traits.form:
        case "vector":
            return f"{tokens} vectors of {width} dimensions" if by_token else f"{width} dimensions"
        case "labels":
            return f"labels of {tokens} tokens" if by_token else f"{width} labels"
        case "sparse":
            return f"{card.max_active_dims} weights"
        case "tokens":
            return f"{card.max_output_tokens} tokens"


def _shorter(card: ModelCard, full: int) -> str:
    if card.max_input_tokens == full:
        return ""
    limit = card.max_input_tokens
    return f"inputs of at most {limit} tokens, as the slots have room for; a restart would take {full}"


def _changed(now: ModelCard, card: ModelCard) -> str:
    """How the kind of its answers would change; "" if it would not."""
    if card.max_active_dims and card.vocab_size != now.vocab_size:
        return f"its weights are of {card.vocab_size} token ids, and {now.name}'s of {now.vocab_size}"
    if card.max_active_dims != now.max_active_dims:
        return f"it gives up to {card.max_active_dims} weights, and {now.name} {now.max_active_dims}"
    if card.dimensions != now.dimensions:
        what = "labels" if card.labels else "dimensions"
        return f"it gives {card.dimensions} {what}, and {now.name} {now.dimensions}"
    if card.labels == now.labels:
        return ""
    number = next(i for i, pair in enumerate(zip(card.labels, now.labels, strict=True)) if pair[0] != pair[1])
    return f"its label {number} is {card.labels[number][:100]!r}, and {now.name}'s is {now.labels[number][:100]!r}"


def _measured(server: Plan, card: ModelCard) -> str:
    return server.capacity.doubt(card.version) if server.capacity else ""
