"""A step of the GPU suite that has run dry."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.gpu.run import Run


def measured(run: Run) -> dict[str, dict[str, Any]]:
    """The table by name, after the step has run."""
    import_module(f"bench.gpu.steps.{run.step.partition(':')[0]}").measure(run)
    return {row["name"]: row for row in run.results.read()["table"]}
