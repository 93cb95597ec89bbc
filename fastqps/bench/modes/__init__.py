"""The modes of ``fastqps bench``: each a module with ``add_arguments(parser)`` and ``run(context) -> Result``."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol, cast

from fastqps.bench.context import Context
from fastqps.bench.result import Result

# Name on the command line -> what it answers. The module has the same name, with underscores.
MODES = {
    "rate": "what happens at one load",
    "breakdown": "where a request's time goes, stage by stage, at 1 to 512 calls in flight",
    "tune": "which settings to run: the highest rate within the SLO, written as a fastqps.toml",
    "ablate": "what each lever adds to one synchronous dispatcher that prepares in Python",
    "starve": "what is left of rate and latency with fewer cores and a noisy neighbour",
}


class Mode(Protocol):
    """What a module of a mode has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Flags of its own, beside the common ones."""

    def run(self, context: Context) -> Result:
        """Measures; the result is ``context.result``, filled in."""


def mode(name: str) -> Mode:
    """The module of a mode. It is imported here, and not before."""
    return cast(Mode, import_module(f"fastqps.bench.modes.{name.replace('-', '_')}"))
