"""The modes of ``fastqps bench``: each a module with ``add_arguments(parser)`` and ``run(context) -> Result``."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol, cast

from fastqps.bench.flags import Common
from fastqps.bench.measure.context import Context
from fastqps.bench.results.result import Result

# Name on the command line -> what it answers. The module has the same name, with underscores.
MODES = {
    "rate": "what happens at one load",
    "sweep": "latency against load, from almost nothing to beyond the peak",
    "find-max": "the highest rate within an SLO",
    "tune": "which settings to run: the highest rate within the SLO, written as a fastqps.toml",
    "breakdown": "where a request's time goes, stage by stage, at 1 to 512 calls in flight",
    "ablate": "what each optimization adds to one synchronous dispatcher that prepares in Python",
    "starve": "what is left of rate and latency with fewer cores and a noisy neighbour",
    "overload": "what happens beyond capacity, and how soon it is over",
    "soak": "whether latency, memory or descriptors drift under a long load",
    "replay": "what happens under recorded traffic",
    "calibrate": "what steps cost on a device, as a profile for --device sim:FILE",
    "accuracy": "how far a model's answers in FP8 are from its own without it",
    "signals": "what each signal of the server says at each load: a recording for autoscale",
    "autoscale": "what a cluster's autoscaler makes of recorded signals: which one to scale on, at which target",
    "compare": "what differs between two results, and whether that is more than noise",
}


class Mode(Protocol):
    """What a module of a mode has. One that starts no server has ``run_alone(options) -> Result`` in
    the place of ``run``, and gets no common flags but --output."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Flags of its own, beside the common ones."""

    def check(self, options: argparse.Namespace, common: Common) -> None:
        """Raises ``ConfigError`` for flags that cannot be, before a server is started. May be missing."""

    def run(self, context: Context) -> Result:
        """Measures; the result is ``context.result``, filled in."""


def mode(name: str) -> Mode:
    """The module of a mode. It is imported here, and not before."""
    return cast(Mode, import_module(f"fastqps.bench.modes.{name.replace('-', '_')}"))
