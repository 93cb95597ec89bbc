"""Service level objectives: what an answer may take, and how many may fail."""

from __future__ import annotations

from dataclasses import dataclass

from fastqps.bench.point import QUANTILES, Point
from fastqps.config.units import format_duration, parse_duration
from fastqps.errors import ConfigError

_QUANTILES = ("p50", "p90", "p95", "p99", "p999")


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
        if not limits:
            raise ConfigError(f"--slo {text!r} limits no latency: add one, for example p99=20ms")
        ordered = [limits[name] for name in _QUANTILES if name in limits]
        if ordered != sorted(ordered):
            raise ConfigError(f"--slo {text!r}: a higher percentile cannot have a lower limit")
        return cls(limits, errors)

    def as_json(self) -> dict[str, float]:
        """``Result.slo``: {p99_us, error_ratio}."""
        found = {f"{name}_us": limit for name, limit in self.limits_us.items()}
        return found if self.error_ratio is None else found | {"error_ratio": self.error_ratio}

    @property
    def latency_us(self) -> float:
        """What an answer may take to count as good: the limit of the highest percentile."""
        return max(self.limits_us.values())

    @property
    def answers_min(self) -> int:
        """OK answers that a run needs before its highest percentile says anything: ten beyond it."""
        highest = max(QUANTILES[name] for name in self.limits_us)
        return round(10 / (1 - highest))

    def violations(self, point: Point) -> list[str]:
        """Why a point does not keep it, for people; empty: it does."""
        found = []
        for name, limit_us in self.limits_us.items():
            measured = point.response_time_us.get(name)
            if measured is None:
                found.append(f"too few answers ({point.response_time_us.get('count') or 0:.0f}) to know {name}")
            elif measured > limit_us:
                found.append(f"{name} {format_us(measured)} is more than {format_us(limit_us)}")
        if self.error_ratio is not None and point.error_ratio > self.error_ratio:
            found.append(f"{100 * point.error_ratio:.3g} % of the calls failed, more than {100 * self.error_ratio:g} %")
        return found

    def __str__(self) -> str:
        parts = [f"{name}={format_duration(round(limit * 1000))}" for name, limit in self.limits_us.items()]
        return ",".join(parts if self.error_ratio is None else [*parts, f"err={100 * self.error_ratio:g}%"])


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


def goodput(point: Point, slo: Slo) -> float:
    """OK answers per second that took no longer than the SLO allows."""
    return point.rate * share_within(point.spectrum.get("response", []), slo.latency_us)


def share_within(spectrum: list[list[float]], limit_us: float) -> float:
    """Share of answers that took at most ``limit_us``, from (percentile, µs) pairs, in proportion between them."""
    below_share, below_us = 0.0, 0.0
    for percentile, us in spectrum:
        if us > limit_us:
            if us <= below_us:
                return below_share
            return below_share + (percentile / 100 - below_share) * (limit_us - below_us) / (us - below_us)
        below_share, below_us = percentile / 100, us
    return 1.0 if spectrum else 0.0
