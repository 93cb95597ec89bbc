"""When calls are due: a specification, its check, and the schedule that it makes before the run.

    constant · poisson · gamma:SHAPE · step:R1,R2,…

``--rate`` is the mean of each kind. ``step`` names its rates, each for an equal part of the run, so it needs none; with
one it is scaled to it. Its calls come at random (Poisson) at the rate of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.errors import UsageError
from loadgen.units import number, rate

Floats = NDArray[np.float64]
CALLS_MAX = 100_000_000  # of one run: 12 bytes each while it is made and while it runs
SECONDS_MAX = 7 * 86400.0
_OVERSHOOT = 6.0  # standard deviations; more gaps are drawn if even that was too few
_FORMS = {"constant": "constant", "poisson": "poisson", "gamma": "gamma:SHAPE", "step": "step:R1,R2,…"}


@dataclass(frozen=True)
class Arrivals:
    """A checked specification. ``numbers``: what stands behind the colon."""

    kind: str
    numbers: tuple[float, ...]
    text: str

    @property
    def has_rate(self) -> bool:
        """Whether it can do without ``--rate``."""
        return self.kind == "step"

    def schedule(self, rate: float | None, seconds: float, warmup_s: float, seed: int) -> NDArray[np.int64]:
        """Nanoseconds from the start of the warm-up, sorted, ``int64[n]``; the same arguments give the same array.

        The warm-up has the rate with which the kind begins. Raises ``UsageError`` if that would be no call at all, or
        more than ``CALLS_MAX``.
        """
        if rate is None and not self.has_rate:
            raise UsageError(f"arrivals {self.text} need a rate")
        if not 0 < seconds <= SECONDS_MAX or not 0 <= warmup_s <= SECONDS_MAX:
            raise UsageError("a run lasts longer than 0 s and at most 7 days")
        rates = np.array(self.numbers if self.has_rate else (1.0,))
        if rate is not None:
            rates *= rate / rates.mean()
        # Gaps come from a process of rate 1. The calls so far, a line over each part, say when as many are due.
        ends_s = warmup_s + seconds * np.arange(len(rates) + 1) / len(rates)
        calls = np.cumsum([warmup_s * rates[0], *(rates * seconds / len(rates))])
        if calls[-1] > CALLS_MAX:
            raise UsageError(
                f"that makes {calls[-1]:,.0f} calls; a run has at most {CALLS_MAX:,}: lower --rate or --duration"
            )
        places = self._places(float(calls[-1]), np.random.default_rng([seed, 0]))
        due: Floats = np.interp(places, [0.0, *calls], [0.0, *ends_s])
        if due.size == 0 or due[-1] < warmup_s:
            raise UsageError(f"no call is due within {seconds:g} s at this rate; raise --rate or --duration")
        due *= 1e9
        return np.rint(due, out=due).astype(np.int64)

    def _places(self, total: float, rng: np.random.Generator) -> Floats:
        """The places below ``total`` of a renewal process of rate 1."""
        if self.kind == "constant":
            return np.arange(int(np.ceil(total - 1e-9)), dtype=np.float64)
        form = self.numbers[0] if self.kind == "gamma" else 1.0
        chunks: list[Floats] = []
        reached = 0.0
        while reached < total:
            left = total - reached
            gaps = rng.standard_gamma(form, int(left + _OVERSHOOT * np.sqrt(left / form) + 16))
            gaps /= form
            gaps[0] += reached

            chunks.append(np.cumsum(gaps, out=gaps))
            reached = float(gaps[-1])
        places = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
        return places[: np.searchsorted(places, total)]


def _shape(parts: Sequence[str]) -> tuple[float, ...]:
    return (number(parts[0], "SHAPE", 0.01, 10_000),)


def _rates(parts: Sequence[str]) -> tuple[float, ...]:
    """Rates, of which some may be 0, but not all."""
    rates = tuple(0.0 if word in ("0", "0.0") else rate(word) for word in parts)
    if not any(rates):
        raise UsageError("with every rate 0 there are no calls")
    return rates


_READ: dict[str, Callable[[Sequence[str]], tuple[float, ...]]] = {"gamma": _shape, "step": _rates}


def parse(text: str) -> Arrivals:
    """A specification from the command line. ``UsageError``: what is wrong with it and what would be right."""
    kind, colon, rest = text.strip().partition(":")
    if kind not in _FORMS:
        raise UsageError(f"{text!r} is no kind of arrivals; there are: {forms(', ')}")
    parts = [word.strip() for word in rest.split(",")] if colon else []
    form = _FORMS[kind]
    if len(parts) < 2 if kind == "step" else len(parts) != form.count(":"):
        raise UsageError(f"{text!r} should read {form}")
    try:
        return Arrivals(kind, _READ[kind](parts) if parts else (), text.strip())
    except UsageError as error:
        raise UsageError(f"{text!r}: {error} ({form})") from None


def forms(between: str) -> str:
    """All kinds, as they are written."""
    return between.join(_FORMS.values())
