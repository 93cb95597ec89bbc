"""Numbers as people read them: 1,184/s, 18.3 ms, 83.1 %. None is a dash."""

from __future__ import annotations

from fastqps.terminal import shown
from loadgen.units import format_duration

NOTHING = "–"


def rate(per_second: float | None) -> str:
    """1,184/s; three digits below 100."""
    return NOTHING if per_second is None else f"{count(per_second)}/s"


def count(value: float | None) -> str:
    """1,184; three significant digits below 100."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def time(us: float | None) -> str:
    """Microseconds in the unit that suits them, three significant digits: 812 µs, 18.3 ms, 1.20 s."""
    return NOTHING if us is None else format_duration(us * 1e3)


def limit(us: float) -> str:
    """A time that somebody asked for, without digits that nobody said: 20 ms."""
    size, unit = (1e6, "s") if us >= 1e6 else (1e3, "ms") if us >= 1e3 else (1, "µs")
    return f"{us / size:.6g} {unit}"


def setting(value: object) -> str:
    """A setting's value: on and off for truth values, else as it is; '' for None."""
    return ("on" if value else "off") if isinstance(value, bool) else "" if value is None else str(value)


def percent(share: float | None) -> str:
    """0.831 is 83.1 %. Never rounded up to 100 %: 99.97 % stays that."""
    if share is None:
        return NOTHING
    value = 100 * share
    if value in (0, 100):
        return f"{value:.0f} %"
    return f"{min(value, 99.99):.2f} %" if 99.95 <= value < 100 else f"{value:.1f} %"


def mebibytes(size: float | None) -> str:
    """Bytes as MiB."""
    return NOTHING if size is None else f"{size / (1 << 20):,.1f} MiB"


def signed_percent(share: float | None) -> str:
    """A difference: +4.2 %, with a true minus sign."""
    return NOTHING if share is None else f"{100 * share:+.1f} %".replace("-", "\u2212")


def spaced(name: str) -> str:
    """max_batch_items or max-batch-items as people read it: max batch items."""
    return name.replace("_", " ").replace("-", " ")


def statistic(name: str) -> str:
    """p999 as people read it: p99.9."""
    return f"p99.{name[3:]}" if name.startswith("p99") and len(name) > 3 else name


def one_line(text: str) -> str:
    """The text on one line, with one space for any white space in it."""
    return shown(" ".join(text.split()))
