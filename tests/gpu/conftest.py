"""Tests that need a GPU, where all of fastqps runs as it does on one; without it they are skipped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import serving

serving.START_S = 240.0  # the first start compiles the kernels
sys.path.append(str(Path(__file__).parents[1] / "e2e"))  # ledger.py


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU")
