"""Traffic for a cluster: how many requests come each second, over minutes or a day, with noise that can be repeated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastqps.errors import ConfigError

Floats = NDArray[np.float64]
SECONDS_MAX = 7 * 86_400
RATE_MAX = 1e8
HOUR_S = 3600


@dataclass(frozen=True)
class Shape:
    """``rates[k]``: requests per second in second k; ``costs[k]``: what each takes, of what was recorded."""

    name: str
    description: str
    rates: Floats
    costs: Floats

    @property
    def seconds(self) -> int:
        return len(self.rates)


def _shape(
    name: str, description: str, rates: Floats, noise: Floats | None = None, costs: Floats | None = None
) -> Shape:
    rates = np.clip(rates if noise is None else rates * noise, 0.0, RATE_MAX)
    return Shape(name, description, rates, np.ones(len(rates)) if costs is None else costs)


def _noise(seconds: int, share: float, memory_s: float, seed: int) -> Floats:
    """Factors around 1 that wander: ``share`` is their deviation, ``memory_s`` how long a value lasts."""
    rng = np.random.default_rng(seed)
    keep = math.exp(-1 / memory_s)
    shocks = rng.standard_normal(seconds) * math.sqrt(1 - keep * keep)
    found = np.empty(seconds)
    value = rng.standard_normal()
    for k in range(seconds):
        value = keep * value + shocks[k]
        found[k] = value
    return np.asarray(np.exp(share * found - share * share / 2))


def diurnal(seed: int) -> Shape:
    """A day: 20K at night, 200K in the evening, with a shoulder at noon."""
    seconds = 24 * HOUR_S
    hour = np.arange(seconds) / HOUR_S
    evening = np.exp(-(((hour - 20) / 3.2) ** 2))
    noon = 0.62 * np.exp(-(((hour - 12.5) / 3.5) ** 2))
    day = evening + noon
    rates = 20_000 + 180_000 * (day - day.min()) / (day.max() - day.min())
    return _shape("diurnal", "a day between 20K and 200K requests/s", rates, _noise(seconds, 0.03, 20, seed))


def ramp(seed: int) -> Shape:
    """10 to 10K in a minute."""
    seconds = HOUR_S
    rates = np.interp(np.arange(seconds), [0, 600, 660, 2400, 2460], [10.0, 10.0, 10_000.0, 10_000.0, 10.0])
    return _shape("ramp", "10 to 10K requests/s within a minute, half an hour, and back", rates,
                  _noise(seconds, 0.03, 20, seed))  # fmt: skip


def spike(seed: int) -> Shape:
    """Thrice the usual for two minutes, twice within an hour."""
    seconds = HOUR_S
    rates = np.full(seconds, 20_000.0)
    for at in (900, 2400):
        rates[at : at + 120] = 60_000.0
    return _shape("spike", "20K requests/s, twice 60K for two minutes", rates, _noise(seconds, 0.03, 20, seed))


def flapping(seed: int) -> Shape:
    """Up and down every few minutes, with noise of a tenth: what tempts an autoscaler to follow."""
    seconds = 2 * HOUR_S
    t = np.arange(seconds)
    wave = 1 + 0.2 * np.sin(2 * np.pi * t / 240) + 0.1 * np.sin(2 * np.pi * t / 97)
    return _shape("flapping", "40K requests/s ± 30 % every four minutes, with noise", 40_000 * wave,
                  _noise(seconds, 0.10, 15, seed))  # fmt: skip


def step(seed: int) -> Shape:
    """Half as much again at once, and back after forty minutes."""
    seconds = 2 * HOUR_S
    rates = np.full(seconds, 40_000.0)
    rates[1200:3600] = 60_000.0
    return _shape("step", "40K requests/s, 60K for forty minutes", rates, _noise(seconds, 0.03, 20, seed))


def heavier(seed: int) -> Shape:
    """A constant rate; for an hour each request takes 1.6 times as long."""
    seconds = 2 * HOUR_S
    costs = np.ones(seconds)
    costs[1800:5400] = np.interp(np.arange(3600), [0, 300, 3300, 3600], [1.0, 1.6, 1.6, 1.0])
    return _shape("heavier", "40K requests/s, of which each takes 1.6 times as long for an hour",
                  np.full(seconds, 40_000.0), _noise(seconds, 0.03, 20, seed), costs)  # fmt: skip


SHAPES: dict[str, Callable[[int], Shape]] = {
    made.__name__: made for made in (diurnal, ramp, spike, flapping, step, heavier)
}


def scaled(shape: Shape, factor: float) -> Shape:
    """The shape with a multiple of the requests."""
    return replace(shape, rates=np.clip(shape.rates * factor, 0.0, RATE_MAX))


def read_trace(path: str) -> Shape:
    """A recorded course: lines of ``seconds,requests_per_second``, the seconds rising from 0; a rate lasts until the
    next line, the last one for as long as the one before. A first line of words is a heading. ``ConfigError``."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--trace: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    rows: list[tuple[float, float]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and not line.strip()[0].isdigit()):
            continue
        try:
            at_s, rate = map(float, line.split(","))
        except ValueError:
            raise ConfigError(f"--trace: {path}:{number}: {line.strip()[:40]!r} is not SECONDS,RATE") from None
        if not 0 <= rate <= RATE_MAX:
            raise ConfigError(f"--trace: {path}:{number}: a rate of {rate:g}/s; 0 to {RATE_MAX:g}")
        if (not rows and at_s != 0) or (rows and at_s <= rows[-1][0]) or not at_s <= SECONDS_MAX:
            raise ConfigError(
                f"--trace: {path}:{number}: {at_s:g} s; times rise from 0 to at most {SECONDS_MAX} s (a week)"
            )
        rows.append((at_s, rate))
    if len(rows) < 2:
        raise ConfigError(f"--trace: {path} has {len(rows)} rates; at least 2")
    end_s = min(SECONDS_MAX, math.ceil(2 * rows[-1][0] - rows[-2][0]))
    times, rates = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    at = np.searchsorted(times, np.arange(end_s), side="right") - 1
    return _shape(Path(path).stem, f"the course in {Path(path).name}", rates[at])
