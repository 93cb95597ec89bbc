"""When calls are due: a specification, its check, and the schedule that it makes before the run.

    constant · poisson · gamma:SHAPE · onoff:ON,OFF · mmpp:R1,R2,T1,T2 · step:R1,R2,… · ramp:R1,R2
    sine:AMPLITUDE,PERIOD

Calls of all but ``constant`` and ``gamma`` come at random (Poisson) at the rate of the moment. ``--rate`` is the mean
of each kind. ``mmpp``, ``step`` and ``ramp`` name their rates, so they need none; with one they are scaled to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen import shapes
from loadgen.errors import UsageError
from loadgen.shapes import Floats, Shape
from loadgen.units import duration_ns, number, rate

CALLS_MAX = 100_000_000  # of one run: 12 bytes each while it is made and while it runs
SECONDS_MAX = 7 * 86400.0
_OVERSHOOT = 6.0  # standard deviations; more gaps are drawn if even that was too few


@dataclass(frozen=True)
class Arrivals:
    """A checked specification. ``numbers``: what stands behind the colon; durations in seconds."""

    kind: str
    numbers: tuple[float, ...]
    text: str

    @property
    def has_rate(self) -> bool:
        """Whether it can do without ``--rate``."""
        return KINDS[self.kind].own_rate

    def schedule(self, rate: float | None, seconds: float, warmup_s: float, seed: int) -> NDArray[np.int64]:
        """Nanoseconds from the start of the warm-up, sorted, ``int64[n]``; the same arguments give the same array.

        The warm-up has the rate with which the kind begins, or its mean. Raises ``UsageError`` if that would be no call
        at all, or more than ``CALLS_MAX``.
        """
        if rate is None and not self.has_rate:
            raise UsageError(f"arrivals {self.text} need a rate")
        if not 0 < seconds <= SECONDS_MAX or not 0 <= warmup_s <= SECONDS_MAX:
            raise UsageError("a run lasts longer than 0 s and at most 7 days")
        gaps, path = (np.random.default_rng([seed, part]) for part in (0, 1))
        kind = KINDS[self.kind]
        shape = kind.shape(self.numbers, seconds, path)
        if rate is not None:
            mean = kind.mean(self.numbers) if kind.mean else shape.total / seconds
            shape = Shape(shape.t_s, shape.calls * (rate / mean if mean else 0.0))
        first = shape.calls[1] / shape.t_s[1] if kind.begins else shape.total / seconds
        shape = shape.preceded(float(first), warmup_s)
        if shape.total > CALLS_MAX:
            raise UsageError(
                f"that makes {shape.total:,.0f} calls; a run has at most {CALLS_MAX:,}: lower --rate or --duration"
            )
        due = shape.moments_s(self._counts(shape.total, gaps))
        if due.size == 0 or due[-1] < warmup_s:
            raise UsageError(f"no call is due within {seconds:g} s at this rate; raise --rate or --duration")
        due *= 1e9
        return np.rint(due, out=due).astype(np.int64)

    def _counts(self, total: float, rng: np.random.Generator) -> Floats:
        """The places below ``total`` of a renewal process of rate 1."""
        if self.kind == "constant":
            return np.arange(int(np.ceil(total - 1e-9)), dtype=np.float64)
        form = self.numbers[0] if self.kind == "gamma" else 1.0
        draw: Callable[[int], Floats] = rng.standard_exponential
        if self.kind == "gamma":
            draw = lambda size: rng.standard_gamma(form, size) / form  # noqa: E731
        chunks: list[Floats] = []
        reached = 0.0
        while reached < total:
            left = total - reached
            gaps = draw(int(left + _OVERSHOOT * np.sqrt(left / form) + 16))
            gaps[0] += reached
            chunks.append(np.cumsum(gaps, out=gaps))
            reached = float(gaps[-1])
        places = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
        return places[: np.searchsorted(places, total)]


def _seconds(text: str) -> float:
    period_ns = duration_ns(text)
    if period_ns == 0:
        raise UsageError("0 is no period")
    return period_ns / 1e9


def _rates(parts: list[str]) -> tuple[float, ...]:
    """Rates, of which some may be 0, but not all."""
    rates = tuple(0.0 if word in ("0", "0.0") else rate(word) for word in parts)
    if not any(rates):
        raise UsageError("with every rate 0 there are no calls")
    return rates


Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Kind:
    """``read``: its parts as numbers. ``shape``: its rate over time. ``mean``: that of the shape in the long run, where
    a run may cut a period short. ``own_rate``: it names its rates. ``begins``: with a rate that is not the mean."""

    form: str
    read: Callable[[list[str]], Numbers] = lambda parts: ()
    shape: Callable[[Numbers, float, np.random.Generator], Shape] = lambda n, seconds, rng: shapes.constant(seconds)
    mean: Callable[[Numbers], float] | None = None
    own_rate: bool = False
    begins: bool = False


KINDS = {
    "constant": Kind("constant"),
    "poisson": Kind("poisson"),
    "gamma": Kind("gamma:SHAPE", lambda parts: (number(parts[0], "SHAPE", 0.01, 10_000),)),
    "onoff": Kind(
        "onoff:ON,OFF",
        lambda parts: (_seconds(parts[0]), _seconds(parts[1])),
        lambda n, seconds, rng: shapes.on_off(n[0], n[1], seconds),
        lambda n: n[0] / sum(n),
    ),
    "mmpp": Kind(
        "mmpp:R1,R2,T1,T2",
        lambda parts: (*_rates(parts[:2]), *map(_seconds, parts[2:])),
        lambda n, seconds, rng: shapes.modulated((n[0], n[1]), (n[2], n[3]), seconds, rng),
        lambda n: (n[0] * n[2] + n[1] * n[3]) / (n[2] + n[3]),
        own_rate=True,
    ),
    "step": Kind("step:R1,R2,…", _rates, lambda n, seconds, rng: shapes.steps(n, seconds), None, True, True),
    "ramp": Kind("ramp:R1,R2", _rates, lambda n, seconds, rng: shapes.ramp(n[0], n[1], seconds), None, True, True),
    "sine": Kind(
        "sine:AMPLITUDE,PERIOD",
        lambda parts: (number(parts[0], "AMPLITUDE", 0, 1), _seconds(parts[1])),
        lambda n, seconds, rng: shapes.sine(n[0], n[1], seconds),
        lambda n: 1.0,
    ),
}


def parse(text: str) -> Arrivals:
    """A specification from the command line. ``UsageError``: what is wrong with it and what would be right."""
    kind, colon, rest = text.strip().partition(":")
    if kind not in KINDS:
        raise UsageError(f"{text!r} is no kind of arrivals; there are: {forms(', ')}")
    parts = [word.strip() for word in rest.split(",")] if colon else []
    form = KINDS[kind].form
    wanted = form.count(",") + 1 if ":" in form else 0
    if len(parts) < 2 if kind == "step" else len(parts) != wanted:
        raise UsageError(f"{text!r} should read {form}")
    try:
        return Arrivals(kind, KINDS[kind].read(parts), text.strip())
    except UsageError as error:
        raise UsageError(f"{text!r}: {error} ({form})") from None


def forms(between: str) -> str:
    """All kinds, as they are written."""
    return between.join(kind.form for kind in KINDS.values())
