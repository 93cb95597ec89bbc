"""The settings that a front door gets from the supervisor, and what it says of others."""

from __future__ import annotations

import functools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from fastqps import _front
from fastqps._core import Segment, Sizes, WakeFds, create_segment
from fastqps.config.settings import Config
from fastqps.supervisor.child import System
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot

pytestmark = pytest.mark.compute

CONFIG = Config(tenant_weights="a=2,b=3", auto_truncate="on", otlp_endpoint="http://127.0.0.1:1", trace_ratio=0.5)


def native(config: Config) -> dict[str, Any]:
    shared: Any = SimpleNamespace(http_fd=-1)
    server: Any = SimpleNamespace(config=config, aliases={})
    nothing: Any = None
    return FrontDoorSlot(0, server, shared, nothing, System())._native(3)


@functools.cache
def segment() -> Segment:
    sizes = Sizes(doors=1, dispatchers=1, models=1, slots=16, max_tokens=16, answer_bytes=64)
    return Segment(create_segment(sizes))


def fault(text: str) -> str:
    """What a door says of its settings; "": nothing, and it only misses its line in the segment."""
    try:
        _front.Door(segment(), WakeFds(dispatchers=[], doors=[]), 1, text)
    except ValueError as error:
        return str(error).removeprefix("settings of a front door: ")
    except IndexError:
        return ""
    raise AssertionError("a door without a line")


def test_a_door_reads_every_setting() -> None:
    whole = native(CONFIG)
    assert fault(json.dumps(whole)) == fault(json.dumps(native(Config()))) == ""
    for name in whole:
        assert fault(json.dumps({key: value for key, value in whole.items() if key != name})) == f"{name}: missing"
        assert fault(json.dumps(whole | {name: {}})).startswith(f"{name}: not "), name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"colour": 1}, "colour: unknown"),
        ({"c" * 65: 1}, "a long name: unknown"),
        ({"max_message_bytes": 1 << 32}, "max_message_bytes: not an integer from 0 to 4294967295"),
        ({"max_timeout_ns": -1}, "max_timeout_ns: not an integer from 0 to 18446744073709551615"),
        ({"http_fd": -1 << 31}, ""),
        ({"cors": 1}, "cors: not true or false"),
        ({"cors": None}, "cors: not true or false"),
        ({"trace_ratio": 1}, ""),
        ({"trace_ratio": "1"}, "trace_ratio: not a number"),
        ({"tenant_header": 1}, "tenant_header: not a string"),
        ({"tenant_weights": 1}, "tenant_weights: not a list"),
        ({"tenant_weights": [["a", 1, 2]]}, "tenant_weights: not a pair"),
        ({"tenant_weights": [["a", -1]]}, "tenant_weights: not an integer from 0 to 4294967295"),
    ],
)
def test_a_wrong_setting_is_named(change: dict[str, Any], said: str) -> None:
    assert fault(json.dumps(native(CONFIG) | change)) == said


def test_damaged_settings_are_an_error() -> None:
    text = json.dumps(native(CONFIG))
    for end in range(len(text)):
        assert fault(text[:end])
    assert fault("[]") == "not an object"
