"""Service level objectives: what an answer may take, and how many may fail."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fastqps.bench.results.point import BEYOND_MIN, QUANTILES, Point
from fastqps.config.units import format_duration, parse_duration
from fastqps.errors import ConfigError

_QUANTILES = ("p50", "p90", "p95", "p99", "p999")
MARGIN = 1.1  # of the calls that are needed: random arrivals may be fewer


@dataclass(frozen=True)
class Judgement:
    """The judgement of one point against an SLO. ``broken``: the limits that it exceeds. ``unknown``: the limits that
    its answers are too few to decide, so that the point says neither yes nor no. Sentences for people."""

    broken: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether every limit is known to be kept."""
        return not self.broken and not self.unknown

    @property
    def inconclusive(self) -> bool:
        """Whether no limit is known to be broken, but not all are known to be kept."""
        return bool(self.unknown) and not self.broken


@dataclass(frozen=True)
class Slo:
    """``limits_us``: the most that percentiles of the response time may be. ``error_ratio``: of calls that fail."""

    limits_us: dict[str, float]
    error_ratio: float | None = None

    @classmethod
    def parse(cls, text: str) -> Slo:
        """``p99=20ms,err=0.1%``, in any order; also p50, p90, p95, p999. Raises ``ConfigError``."""
        limits: dict[str, float] = {}
        errors: float | None = None
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or name not in (*_QUANTILES, "err"):
                raise ConfigError(f"--slo {part!r}: write p99=20ms or err=0.1% (also {', '.join(_QUANTILES)})")
            if name == "err":
                errors = _ratio(value)
                continue
            try:
                limit_ns = parse_duration(value)
            except ValueError as error:
                raise ConfigError(f"--slo {name}: {error}") from None
            if limit_ns < 1000:
                raise ConfigError(f"--slo {name}={value}: no answer takes less than 1us")
            limits[name] = limit_ns / 1000
        ordered = [limits[name] for name in _QUANTILES if name in limits]
        if ordered != sorted(ordered):
            raise ConfigError(f"--slo {text!r}: a higher percentile cannot have a lower limit")
        return cls(limits, errors)

    def as_json(self) -> dict[str, float]:
        """``Result.slo``: {p99_us, error_ratio}."""
        limits = {f"{name}_us": limit for name, limit in self.limits_us.items()}
        return limits if self.error_ratio is None else limits | {"error_ratio": self.error_ratio}

    @property
    def latency_us(self) -> float:
        """The longest latency of a good answer: the limit of the highest percentile, infinite without one."""
        return max(self.limits_us.values(), default=math.inf)

    @property
    def answers_min(self) -> int:
        """OK answers that a run needs before its highest percentile is known: ten beyond it."""
        highest = max((QUANTILES[name] for name in self.limits_us), default=0.0)
        return round(BEYOND_MIN / (1 - highest))

    @property
    def calls_min(self) -> int:
        """Calls that a run needs before it can decide every limit. The share of failures is known as soon as its limit
        allows for one failed call."""
        errors = math.ceil(1 / self.error_ratio - 1e-9) if self.error_ratio else 0
        return max(self.answers_min, errors)

    def seconds(self, rate: float) -> float:
        """The seconds that a run must measure to decide every limit, at ``rate`` calls per second."""
        return MARGIN * self.calls_min / rate

    def judge(self, point: Point) -> Judgement:
        """Judges a point: which limits it exceeds, and for which it has too few answers."""
        judgement = Judgement()
        for name, limit_us in self.limits_us.items():
            measured = point.response_time_us.get(name)
            if measured is not None:
                if measured > limit_us:
                    judgement.broken.append(f"{name} {format_us(measured)} is more than {format_us(limit_us)}")
            elif _answers_beyond(point, limit_us) >= BEYOND_MIN:
                # Ten answers are beyond the limit, and fewer than ten beyond the percentile: it is beyond the limit.
                judgement.broken.append(f"{name} is more than {format_us(limit_us)}: {BEYOND_MIN} answers took longer")
            else:
                judgement.unknown.append(
                    f"too few answers ({point.response_time_us.get('count') or 0:.0f}) to know {name}"
                )
        if self.error_ratio is not None:
            self._judge_errors(point, self.error_ratio, judgement)
        return judgement

    def _judge_errors(self, point: Point, limit: float, judgement: Judgement) -> None:
        known = limit == 0 or point.answers * limit >= 1 - 1e-9
        if point.error_ratio > limit and point.answers and (known or point.error_ratio * point.answers >= BEYOND_MIN):
            judgement.broken.append(f"{100 * point.error_ratio:.3g} % of the calls failed, more than {100 * limit:g} %")
        elif not known or not point.answers:
            judgement.unknown.append(
                f"too few calls ({point.answers}) to tell whether more than {100 * limit:g} % fail"
            )

    def __str__(self) -> str:
        parts = [f"{name}={format_duration(round(limit * 1000))}" for name, limit in self.limits_us.items()]
        return ",".join(parts if self.error_ratio is None else [*parts, f"err={100 * self.error_ratio:g}%"])


def duration_flag(seconds: float) -> str:
    """The flag that asks for a measurement of at least so long, rounded up: ``--duration 18s``."""
    step = 0.1 if seconds < 10 else 1.0
    return f"--duration {math.ceil(seconds / step - 1e-9) * step:.4g}s"


def format_us(us: float) -> str:
    """Three digits and a unit: 850 µs, 18.3 ms, 1.2 s."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"


def _ratio(text: str) -> float:
    number, percent = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
    try:
        ratio = float(number) / percent
    except ValueError:
        raise ConfigError(f"--slo err={text}: write a share of the calls, as 0.1% or 0.001") from None
    if not 0 <= ratio < 1:
        raise ConfigError(f"--slo err={text}: a share of the calls is from 0 to less than 100%")
    return ratio


def _answers_beyond(point: Point, limit_us: float) -> float:
    """OK answers that took longer; 0 where the spectrum is not known."""
    spectrum = point.spectrum.get("response")
    if not spectrum:
        return 0.0
    return (1 - share_within(spectrum, limit_us)) * (point.response_time_us.get("count") or 0.0)


def goodput(point: Point, slo: Slo) -> float:
    """OK answers per second that took no longer than the SLO allows."""
    return point.rate * share_within(point.spectrum.get("response", []), slo.latency_us)


def share_within(spectrum: list[list[float]], limit_us: float) -> float:
    """Share of answers that took at most ``limit_us``, from (percentile, µs) pairs, in proportion between them."""
    if not spectrum:
        return 0.0
    percentiles, times_us = zip(*spectrum, strict=True)
    return float(np.interp(limit_us, (0.0, *times_us), (0.0, *percentiles))) / 100
