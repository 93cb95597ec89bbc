"""The JSON of a model's card, which Python writes and C++ reads: csrc/contract/card.h has a row for each field."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
from typing import Any

import pytest

from fastqps._core import Segment, Sizes, create_segment
from fastqps.models.card import InputRole, ModelCard
from fastqps.models.files.generation_keys import LogitOptions
from fastqps.models.scores.template import TextTemplate

pytestmark = pytest.mark.compute

CARD = ModelCard(
    "name", "/path", "0123456789ab", "embed", "bert", 8, 16, 100, "tokenizer.json", labels=("a", "b"), prefix_ids=(7,),
    logit_options=LogitOptions(2.0, 3, forced_eos_token_id=(5,)), prompts=(("query", "q: "),), default_prompt="query",
    roles=(InputRole("", 16), InputRole("query", 12, 14, 9, (1, 2), "why")),
    templates=(TextTemplate("", (), ()), TextTemplate("query", (("a ", "first"), ("", "")), (("", "second"),))),
)  # fmt: skip
# What the front door and the steps do not need.
UNREAD = {
    "path", "family", "tokenizer", "pad_id", "cls_id", "sep_id", "max_active_dims", "unknown_id", "eos_ids", "stamp",
    "kv_values", "tokenizer_parts", "adapter", "against_id", "warnings",
    "logit_options.begin_suppress_tokens", "logit_options.bad_words_ids",
}  # fmt: skip


@functools.cache
def segment() -> Segment:
    sizes = Sizes(doors=1, dispatchers=1, models=1, slots=16, max_tokens=16, answer_bytes=64)
    return Segment(create_segment(sizes))


def fault(card: str) -> str:
    """What is wrong with a card; "": it is taken."""
    limits = dict.fromkeys(("max_queue_items", "max_batch_items", "max_batch_tokens", "max_batch_delay_ns"), 1)
    try:
        segment().set_route(0, 1, card, **limits, cache_slots=0)
    except RuntimeError as error:
        return str(error).removeprefix("the model's card: ")
    return ""


def objects(card: dict[str, Any]) -> list[tuple[str, dict[str, Any], type]]:
    """The card and the objects in it: what stands in front of their fields' names, and their dataclasses."""
    return [
        ("", card, ModelCard),
        ("logit_options", card["logit_options"], LogitOptions),
        ("roles", card["roles"][1], InputRole),
        ("templates", card["templates"][1], TextTemplate),
    ]


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_every_field_is_read_or_named_as_not_needed(which: int) -> None:
    where, _, kind = objects(json.loads(CARD.to_json()))[which]
    for field in dataclasses.fields(kind):
        path = f"{where}: {field.name}".removeprefix(": ")
        needed = path.replace(": ", ".") not in UNREAD
        whole = json.loads(CARD.to_json())
        target = objects(whole)[which][1]
        target[field.name] = {}
        assert fault(json.dumps(whole)).startswith(f"{path}: ") == needed, path
        del target[field.name]
        assert fault(json.dumps(whole)) == (f"{path}: missing" if needed else ""), path
    whole = json.loads(CARD.to_json())
    objects(whole)[which][1]["colour"] = 1
    assert fault(json.dumps(whole)) == f"{where}: colour: unknown".removeprefix(": ")


def test_what_is_written_is_read() -> None:
    assert fault(CARD.to_json()) == ""
    route = segment().route(0)
    read = (route.version, route.dimensions, route.max_input_tokens, route.max_output_tokens, route.prefix_tokens)
    assert read == (CARD.version, 8, 16, 0, 1)
    assert segment().card(0) == CARD.to_json()
    assert fault(dataclasses.replace(CARD, logit_options=None, empty_id=0).to_json()) == ""
    assert (
        fault(dataclasses.replace(CARD, path="/\udcff\\udcff\N{GRINNING FACE}").to_json()) == ""
    )  # a path may be any bytes
    assert fault(dataclasses.replace(CARD, name="\ud83d").to_json())


def test_a_damaged_card_is_an_error() -> None:
    text = CARD.to_json()
    for end in range(len(text)):
        assert fault(text[:end])
    draw = random.Random(7)
    for _ in range(2000):
        damaged = bytearray(text.encode())
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.choice(b'{}[]",:0-9\\ue\x01')
        try:
            fault(damaged.decode())
        except ValueError as error:  # a word that is known, but not its value
            assert str(error)
