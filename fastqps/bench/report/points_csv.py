"""points.csv: one line for each point, for spreadsheets and scripts. docs/bench.md describes the columns.

The columns of ``FIXED`` are always there, in this order, empty where a point has no value; behind them one
``setting_NAME`` for each setting that the run varies and one ``status_CODE`` for each status that occurred.
"""

from __future__ import annotations

import csv
import io

from fastqps.bench.report.reading import (
    IDLE_REASONS,
    STAGES,
    Json,
    answers_by_fate,
    interval_at,
    list_at,
    mapping_at,
    number_at,
    points_of,
    setting_at,
    text_at,
)

_STATISTICS = ("p50", "p75", "p90", "p95", "p99", "p999", "max", "mean")
_TEXTS = {"name": "name", "verdict": "verdict", "started": "started"}
_LOAD_TEXTS = ("loop", "arrivals", "call")
_LOAD_NUMBERS = ("in_flight", "connections", "duration_s", "seed")
_RATES = ("offered_rate", "achieved_rate", "rate", "goodput")
_NO_INTERVAL = (None, None)
_FATES = ("ok", "refused", "expired", "failed")

FIXED = (
    *_TEXTS,
    "interrupted",
    "reasons",
    *_LOAD_TEXTS,
    *_LOAD_NUMBERS,
    *_RATES,
    "rate_low",
    "rate_high",
    *(f"response_{name}_us" for name in _STATISTICS),
    "response_count",
    "response_p99_low_us",
    "response_p99_high_us",
    *(f"service_{name}_us" for name in _STATISTICS),
    *(f"lateness_{name}_us" for name in _STATISTICS),
    *_FATES,
    "duty_cycle",
    *(f"idle_{reason}" for reason in IDLE_REASONS),
    *(f"stage_{stage}_mean_us" for stage in STAGES),
    "batch_items",
    "batch_tokens",
    "batch_fill",
    "generator_cpu",
    "saturation",
)


def points_csv(result: Json) -> str:
    """The file's text, with a header line."""
    points = points_of(result)
    settings = list(dict.fromkeys(str(name) for point in points for name in mapping_at(point, "settings")))
    codes = list(dict.fromkeys(str(code) for point in points for code in mapping_at(point, "status")))
    heads = [*FIXED, *(f"setting_{_word(name)}" for name in settings), *(f"status_{code}" for code in codes)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(heads)
    for point in points:
        fixed = _fixed(point)
        row = [fixed.get(name) for name in FIXED]
        row += [setting_at(point, name) for name in settings]
        row += [number_at(point, "status", code) for code in codes]
        table.writerow(_plain(value) for value in row)
    return text.getvalue()


def _fixed(point: Json) -> dict[str, object]:
    found: dict[str, object] = {name: text_at(point, key) for name, key in _TEXTS.items()}
    found |= {name: text_at(point, "load", name) for name in _LOAD_TEXTS}
    found |= {name: number_at(point, "load", name) for name in _LOAD_NUMBERS}
    found |= {name: number_at(point, name) for name in (*_RATES, "duty_cycle", "saturation")}
    for prefix, key in (("response", "response_time_us"), ("service", "service_time_us"), ("lateness", "lateness_us")):
        found |= {f"{prefix}_{name}_us": number_at(point, key, name) for name in _STATISTICS}
    found |= dict(zip(("rate_low", "rate_high"), interval_at(point, "rate_interval") or _NO_INTERVAL, strict=True))
    found |= dict(
        zip(
            ("response_p99_low_us", "response_p99_high_us"),
            interval_at(point, "p99_interval_us") or _NO_INTERVAL,
            strict=True,
        )
    )
    found |= answers_by_fate(point) if mapping_at(point, "status") else {}
    found |= {f"idle_{reason}": number_at(point, "idle_reasons", reason) for reason in IDLE_REASONS}
    found |= {f"stage_{stage}_mean_us": number_at(point, "stages_us", stage, "mean") for stage in STAGES}
    found |= {f"batch_{name}": number_at(point, "batch", name) for name in ("items", "tokens", "fill")}
    found["response_count"] = number_at(point, "response_time_us", "count")
    found["generator_cpu"] = number_at(point, "generator", "cpu_fraction")
    found["interrupted"] = "yes" if point.get("interrupted") else "no"
    found["reasons"] = "; ".join(str(reason) for reason in list_at(point, "reasons"))
    return found


def _plain(value: object) -> object:
    """Whole numbers without a fraction, nothing for None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "" if value is None else value


def _word(name: str) -> str:
    return name.replace("-", "_")
