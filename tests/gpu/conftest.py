"""Tests that need a GPU, where all of fastqps runs as it does on one; without it they are skipped."""

from __future__ import annotations

import pytest
import serving

serving.START_S = 240.0  # the first start compiles the kernels


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU")
