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
    """The settings to vary: those of ``--try``, in its order, then the usual ones that the user has not set. The first
    value of each is the one that holds without the tuner, or the simplest."""
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
    dispatchers_max = max(2, min(DISPATCHERS_MAX, cores))
    knobs: dict[str, tuple[Any, ...]] = {"dispatchers": tuple(n for n in (1, 2, 3, 4, 6, 8) if n <= dispatchers_max)}
    if not context.target.refusal({"lanes": 2}):
        knobs["lanes"] = (1, 2)
    if not generates:
        knobs["max-batch-items"] = ("auto", *_around(most_items(config), largest=4096))
    knobs["max-batch-tokens"] = _around(tokens, largest=1 << 20)
    knobs["max-batch-delay"] = ("0us", "200us", "1ms")
    formats = {"cuda": ("fp8", "auto"), "cpu": ("int8",)}.get((config.device or "").partition(":")[0], ())
    if possible := tuple(value for value in formats if not context.target.refusal({"quantization": value})):
        knobs["quantization"] = ("none", *possible)
    return knobs


def _around(value: int, largest: int) -> tuple[int, ...]:
    return tuple(n for n in (value, value // 4, value * 4) if 1 <= n <= largest)


def parse_try(text: str) -> tuple[str, tuple[Any, ...]]:
    """(key, values) of KEY=V1,V2. Raises ``ConfigError`` for what no server takes."""
    key, equals, values = text.partition("=")
    if not equals:
        raise ConfigError(f"--try {text!r}: write KEY=V1,V2, for example dispatchers=1,2,4")
    key = key.strip().replace("_", "-")
    parsed = parse_values(f"try {key}", values)
    for value in parsed:
        check_settings({key: value})
    return key, tuple(int(value) if value.isdecimal() else value for value in parsed)
