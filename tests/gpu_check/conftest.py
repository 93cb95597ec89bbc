"""Dry runs of single steps of the GPU suite."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.results import Results
from bench.gpu.run import Run


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints, written once."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture
def dry(cache: Path, tmp_path: Path) -> Any:
    """Makes a dry run of a step."""

    def make(step: str, limit_s: float = 120.0) -> Run:
        results = Results(tmp_path / "dry-2026-01-01.json")
        results.start(command="test", commit="", environment={"dry": True})
        results.begin(step)
        return Run(step, results, True, time.monotonic() + limit_s, cache)

    return make
