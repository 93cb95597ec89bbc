"""Lists and rates on the command line: 1,2,4; 2.5k."""

from __future__ import annotations

import argparse

from fastqps.errors import ConfigError
from loadgen import units
from loadgen.errors import UsageError

VALUES_MAX = 64


def parse_values(flag: str, text: str) -> list[str]:
    """The parts of ``text`` between commas. ``ConfigError``: there are none, one is empty or there twice."""
    values = [part.strip() for part in text.split(",")]
    if not all(values) or len(set(values)) != len(values) or len(values) > VALUES_MAX:
        raise ConfigError(f"--{flag} {text!r}: write different values with commas between them, at most {VALUES_MAX}")
    return values


def parse_counts(flag: str, text: str, most: int) -> list[int]:
    """Parses a list of whole numbers from 1 to ``most``."""
    values = parse_values(flag, text)
    for value in values:
        if not value.isdecimal() or not 1 <= int(value) <= most:
            raise ConfigError(f"--{flag} {text!r}: {value!r} is not a whole number from 1 to {most}")
    return [int(value) for value in values]


def parse_rate(text: str) -> float:
    """Parses a rate: ``2000``, ``2.5k`` or ``1M``."""
    try:
        return units.rate(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
