"""The facts of a run (command, machine, time, software), without which a figure cannot be judged or repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.bench.report import wording
from fastqps.bench.report.points import number, text
from fastqps.bench.report.summary import slo_text
from fastqps.bench.results.environment import OTHERS
from fastqps.bench.results.result import Result

_MACHINE = {"cpu": "{}", "cores": "{} cores", "cpu_quota_cores": "{} cores of quota", "memory_gib": "{} GiB",
            "gpu": "{}", "kernel": "Linux {}"}  # fmt: skip
_LOAD = {"loop": "{} loop", "arrivals": "{} arrivals", "call": "{} calls", "connections": "{} connections",
         "duration_s": "{} s measured", "warmup_s": "after {} s of warm-up"}  # fmt: skip


def run_facts(result: Result) -> list[tuple[str, str]]:
    """(what, value) for people; only what the result knows."""
    where, target, peak = result.environment, result.target, result.extra.get("peak")
    others = number(where, OTHERS)
    software = {name: version for name, version in where.items() if name not in (*_MACHINE, OTHERS)}
    facts = [
        ("command", result.command),
        ("started", result.started),
        ("server", _server(target)),
        ("server settings", _pairs(target.get("settings") or {})),
        ("objective", slo_text(result)),
        ("load", _load(result)),
        ("peak, closed loop", f"{wording.rate(peak['rate'])} with {peak['in_flight']} in flight" if peak else ""),
        ("payloads", _pairs(result.workload)),
        ("machine", ", ".join(form.format(where[name]) for name, form in _MACHINE.items() if where.get(name))),
        ("other programs", f"took {wording.percent(others)} of the CPU time" if others is not None else ""),
        ("commit", result.commit),
        ("software", _pairs({name: version for name, version in software.items() if version != "missing"})),
        ("seeds", _pairs(result.seeds)),
    ]
    return [(name, wording.one_line(value)) for name, value in facts if value]


def _server(target: Mapping[str, Any]) -> str:
    model, version, device, address = (text(target, key) for key in ("model", "version", "device", "address"))
    name = f"{model}@{version}" if model and version else model
    place = f"at {address}{' with TLS' if target.get('tls') else ''}" if address else ""
    started = "started for this run" if target.get("own") else place
    return ", ".join(filter(None, (name, f"device {device}" if device else "", started)))


def _load(result: Result) -> str:
    """The load that all points have in common."""
    values = {name: {_plain(point.load.get(name)) for point in result.points} for name in _LOAD}
    common = {name: found.pop() for name, found in values.items() if len(found) == 1}
    return ", ".join(_LOAD[name].format(value) for name, value in common.items() if value)


def _plain(value: object) -> str:
    """Numbers without digits that say nothing; "" for nothing and 0."""
    return f"{value:g}" if isinstance(value, float) and value else str(value or "")


def _pairs(values: object) -> str:
    """name value, name value; lists as a b; nothing of what is empty."""
    parts = []
    for name, value in values.items() if isinstance(values, Mapping) else ():
        shown = " ".join(map(str, value)) if isinstance(value, list | tuple) else wording.setting(value)
        if shown:
            parts.append(f"{wording.words(str(name))} {shown}")
    return ", ".join(parts)
