"""Runs of the ``fastqps bench`` command, and measurements that a busy machine may spoil."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from fastqps.bench.results.environment import Others
from fastqps.errors import GENERATOR_BOUND, INCONCLUSIVE

TRIES, TRIES_S = 4, 30.0
RUN_S_MAX = 75.0
OTHERS_MAX = 0.02  # of all CPUs: 4 % of one of two move a duty cycle by more than the figures allow


class Spoiled(Exception):
    """The load generator had too little of a CPU, the noise hid the result, or all took too long."""


def bench(mode: str, folder: Path, *flags: str) -> dict[str, Any]:
    """The report of a run that has to succeed. Raises ``Spoiled``."""
    command = [sys.executable, "-m", "fastqps", "bench", mode, "--output", str(folder), "--warmup", "300ms"]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    env = {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(
            [*command, *flags], capture_output=True, text=True, timeout=RUN_S_MAX, env=env, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise Spoiled(f"no result within {RUN_S_MAX:g} s") from None
    if done.returncode in (GENERATOR_BOUND, INCONCLUSIVE):
        raise Spoiled(done.stderr)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def until_right(attempt: Callable[[], str]) -> None:
    """Tries a measurement, which says what is wrong or nothing: what else runs on the machine can spoil it. Where other
    programs take more of the CPUs than the figures leave room for, there is nothing to be measured."""
    busy, wrong, until_s = [], "", time.monotonic() + TRIES_S
    while len(busy) < TRIES and time.monotonic() < until_s:
        others = Others()
        try:
            wrong = attempt()
        except Spoiled as error:
            wrong = str(error)
        if not wrong:
            return
        busy.append(others.share())
    if min(busy) > OTHERS_MAX:
        pytest.skip(f"other programs took {100 * min(busy):.0f} % of the CPUs and more: {wrong}")
    raise AssertionError(wrong)
