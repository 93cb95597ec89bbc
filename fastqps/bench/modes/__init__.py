"""The modes of ``fastqps bench``: each a module with ``add_arguments(parser)`` and ``run(context) -> Result``."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol, cast

from fastqps.bench.flags import Common
from fastqps.bench.measure.context import Context
from fastqps.bench.results.result import Result

# Name on the command line -> what it does. The module has the same name, with underscores.
MODES = {
    "rate": "measure one load, or recorded traffic: rate, latency, errors",
    "sweep": "measure latency against load, from almost nothing to beyond the peak",
    "find-max": "find the highest rate within an SLO",
    "tune": "find the settings with the highest rate within the SLO, and write a fastqps.toml",
    "breakdown": "show where a request's time goes, stage by stage, at 1 to 512 calls in flight",
    "overload": "measure goodput beyond capacity, and the time to recover",
    "soak": "detect drift of latency, memory or descriptors under a long load",
}


class Mode(Protocol):
    """The interface of a mode's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Flags of its own, beside the common ones."""

    def check(self, options: argparse.Namespace, common: Common) -> None:
        """Raises ``ConfigError`` for flags that cannot be, before a server is started. May be missing."""

    def run(self, context: Context) -> Result:
        """Measures; the result is ``context.result``, filled in."""


def mode(name: str) -> Mode:
    """The module of a mode. It is imported here, and not before."""
    return cast(Mode, import_module(f"fastqps.bench.modes.{name.replace('-', '_')}"))
