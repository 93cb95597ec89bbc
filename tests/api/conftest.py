"""Both clients, for tests of what both do alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from blocking import Blocking

import fastqps


@pytest.fixture(params=[fastqps.Client, Blocking], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Callable[..., Any]:
    kind: Callable[..., Any] = request.param
    return kind
