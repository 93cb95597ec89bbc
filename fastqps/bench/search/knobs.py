"""The settings that the tuner varies, and the values that it tries."""

from __future__ import annotations

from typing import Any

from fastqps.bench.flags import parse_values
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.target import check_settings
from fastqps.bench.search.search import Knob
from fastqps.config import decide
from fastqps.config.decide import most_items
from fastqps.errors import ConfigError
from fastqps.host import machine

DISPATCHERS_MAX = 8  # tried unless more are asked for


def knobs_of(context: Context) -> list[Knob]:
    """What is varied: what ``--try`` says, in its order, then the usual, but for what the user has set. The first value
    of each is what would hold without the tuner, or the simplest."""
    asked = dict(parse_try(text) for text in context.options.tries)
    usual = {key: values for key, values in _usual(context).items() if key not in context.target.base}
    if both := next((key for key in asked if key in context.target.base), None):
        raise ConfigError(f"--try {both}: it is set to {context.target.base[both]} as well; leave one of them out")
    return [
        Knob(key, values) for key, values in {**asked, **{k: v for k, v in usual.items() if k not in asked}}.items()
    ]


def _usual(context: Context) -> dict[str, tuple[Any, ...]]:
    config = decide(context.target.loaded({}).config)
    generates = config.max_running is not None
    cores = machine.usable_cores(len(context.pinning.server or machine.allowed_cpus()))
    tokens = config.max_batch_tokens or 4096
    most = max(2, min(DISPATCHERS_MAX, cores))
    found: dict[str, tuple[Any, ...]] = {"dispatchers": tuple(n for n in (1, 2, 3, 4, 6, 8) if n <= most)}
    if not context.target.refusal({"lanes": 2}):
        found["lanes"] = (1, 2)
    if not generates:
        found["max-batch-items"] = ("auto", *_around(most_items(config), most=4096))
    found["max-batch-tokens"] = _around(tokens, most=1 << 20)
    found["max-batch-delay"] = ("0us", "200us", "1ms")
    formats = {"cuda": ("fp8", "auto"), "cpu": ("int8",)}.get((config.device or "").partition(":")[0], ())
    if possible := tuple(value for value in formats if not context.target.refusal({"quantization": value})):
        found["quantization"] = ("none", *possible)
    return found


def _around(value: int, most: int) -> tuple[int, ...]:
    return tuple(n for n in (value, value // 4, value * 4) if 1 <= n <= most)


def parse_try(text: str) -> tuple[str, tuple[Any, ...]]:
    """(key, values) of KEY=V1,V2. Raises ``ConfigError`` for what no server takes."""
    key, equals, values = text.partition("=")
    if not equals:
        raise ConfigError(f"--try {text!r}: write KEY=V1,V2, for example dispatchers=1,2,4")
    key = key.strip().replace("_", "-")
    found = parse_values(f"try {key}", values)
    for value in found:
        check_settings({key: value})
    return key, tuple(int(value) if value.isdecimal() else value for value in found)
