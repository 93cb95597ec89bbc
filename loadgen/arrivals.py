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
KINDS = {
    "constant": "constant",
    "poisson": "poisson",
    "gamma": "gamma:SHAPE",
    "onoff": "onoff:ON,OFF",
    "mmpp": "mmpp:R1,R2,T1,T2",
    "step": "step:R1,R2,…",
    "ramp": "ramp:R1,R2",
    "sine": "sine:AMPLITUDE,PERIOD",
}
_OWN_RATES = ("mmpp", "step", "ramp")
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
        return self.kind in _OWN_RATES

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
        shape = self._shape(seconds, path)
        if rate is not None:
            shape = self._to_mean(shape, rate, seconds)
        shape = shape.preceded(self._first_rate(shape, seconds), warmup_s)
        if shape.total > CALLS_MAX:
            raise UsageError(
                f"that makes {shape.total:,.0f} calls; a run has at most {CALLS_MAX:,}: lower --rate or --duration"
            )
        due = shape.moments_s(self._counts(shape.total, gaps))
        if due.size == 0 or due[-1] < warmup_s:
            raise UsageError(f"no call is due within {seconds:g} s at this rate; raise --rate or --duration")
        due *= 1e9
        return np.rint(due, out=due).astype(np.int64)

    def _shape(self, seconds: float, rng: np.random.Generator) -> Shape:
        n = self.numbers
        match self.kind:
            case "onoff":
                return shapes.on_off(n[0], n[1], seconds)
            case "mmpp":
                return shapes.modulated((n[0], n[1]), (n[2], n[3]), seconds, rng)
            case "step":
                return shapes.steps(n, seconds)
            case "ramp":
                return shapes.ramp(n[0], n[1], seconds)
            case "sine":
                return shapes.sine(n[0], n[1], seconds)
        return shapes.constant(seconds)

    def _to_mean(self, shape: Shape, rate: float, seconds: float) -> Shape:
        """Scaled to a mean of ``rate``: over the run, or in the long run where the run cuts a period short."""
        factor = rate * seconds / shape.total if shape.total else 0.0
        match self.kind:
            case "onoff":
                factor = rate * sum(self.numbers) / self.numbers[0]
            case "mmpp":
                r1, r2, t1, t2 = self.numbers
                factor = rate * (t1 + t2) / (r1 * t1 + r2 * t2)
            case "sine":
                factor = rate
        return Shape(shape.t_s, shape.calls * factor)

    def _first_rate(self, shape: Shape, seconds: float) -> float:
        if self.kind in ("step", "ramp"):
            return float(shape.calls[1] / shape.t_s[1])
        return shape.total / seconds

    def _counts(self, total: float, rng: np.random.Generator) -> Floats:
        """The places below ``total`` of a renewal process of rate 1."""
        if self.kind == "constant":
            return np.arange(int(np.ceil(total - 1e-9)), dtype=np.float64)
        form = self.numbers[0] if self.kind == "gamma" else 1.0
        draw: Callable[[int], Floats] = rng.standard_exponential
        if self.kind == "gamma":
            draw = lambda size: rng.standard_gamma(form, size) / form  # noqa: E731
        found: list[Floats] = []
        reached = 0.0
        while reached < total:
            left = total - reached
            gaps = draw(int(left + _OVERSHOOT * np.sqrt(left / form) + 16))
            gaps[0] += reached
            found.append(np.cumsum(gaps, out=gaps))
            reached = float(gaps[-1])
        places = found[0] if len(found) == 1 else np.concatenate(found)
        return places[: np.searchsorted(places, total)]


def parse(text: str) -> Arrivals:
    """A specification from the command line. ``UsageError``: what is wrong with it and what would be right."""
    kind, colon, rest = text.strip().partition(":")
    if kind not in KINDS:
        raise UsageError(f"{text!r} is no kind of arrivals; there are: {', '.join(KINDS.values())}")
    words = [word.strip() for word in rest.split(",")] if colon else []
    form = KINDS[kind]
    wanted = form.count(",") + 1 if ":" in form else 0
    if len(words) < 2 if kind == "step" else len(words) != wanted:
        raise UsageError(f"{text!r} should read {form}")
    try:
        numbers = _READ[kind](words)
    except UsageError as error:
        raise UsageError(f"{text!r}: {error} ({form})") from None
    return Arrivals(kind, numbers, text.strip())


def _seconds(text: str) -> float:
    found = duration_ns(text)
    if found == 0:
        raise UsageError("0 is no period")
    return found / 1e9


def _rates(words: list[str]) -> tuple[float, ...]:
    """Rates, of which some may be 0, but not all."""
    found = tuple(0.0 if word in ("0", "0.0") else rate(word) for word in words)
    if not any(found):
        raise UsageError("with every rate 0 there are no calls")
    return found


def _mmpp(words: list[str]) -> tuple[float, ...]:
    return (*_rates(words[:2]), *map(_seconds, words[2:]))


_READ: dict[str, Callable[[list[str]], tuple[float, ...]]] = {
    "constant": lambda words: (),
    "poisson": lambda words: (),
    "gamma": lambda words: (number(words[0], "SHAPE", 0.01, 10_000),),
    "onoff": lambda words: (_seconds(words[0]), _seconds(words[1])),
    "mmpp": _mmpp,
    "step": _rates,
    "ramp": _rates,
    "sine": lambda words: (number(words[0], "AMPLITUDE", 0, 1), _seconds(words[1])),
}
