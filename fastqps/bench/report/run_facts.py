"""What was run, where, when and with what: without that a figure cannot be judged, and not be measured again."""

from __future__ import annotations

from collections.abc import Mapping

from fastqps.bench.report import wording
from fastqps.bench.report.reading import Json, list_at, mapping_at, number_at, one_line_of, points_of, text_at
from fastqps.bench.report.summary import slo_text

_MACHINE = ("cpu", "cores", "cpu_quota_cores", "memory_gib", "gpu", "kernel")
_OWN_LINES = {"other_programs_cpu_share"}


def run_facts(result: Json) -> list[tuple[str, str]]:
    """(what, value) for people; only what the result knows."""
    environment = mapping_at(result, "environment")
    software = {
        name: value
        for name, value in environment.items()
        if name not in (*_MACHINE, *_OWN_LINES) and value != "missing"
    }
    others = number_at(environment, "other_programs_cpu_share")
    target = mapping_at(result, "target")
    facts = [
        ("command", text_at(result, "command")),
        ("started", text_at(result, "started")),
        ("server", _server(target)),
        ("server settings", _pairs(mapping_at(target, "settings"))),
        ("objective", slo_text(result)),
        ("load", _load(result)),
        ("peak, closed loop", _peak(mapping_at(result, "peak"))),
        ("payloads", _pairs(mapping_at(result, "workload"))),
        ("machine", _machine(environment)),
        ("other programs", f"took {wording.percent(others)} of the CPU time" if others is not None else ""),
        ("commit", text_at(result, "commit")),
        ("software", _pairs(software)),
        ("seeds", _pairs(mapping_at(result, "seeds"))),
    ]
    return [(name, value) for name, value in facts if value]


def _server(target: Json) -> str:
    name, version = text_at(target, "model"), text_at(target, "version")
    model = f"{name}@{version}" if name and version else name
    device, address = text_at(target, "device"), text_at(target, "address")
    secured = " with TLS" if target.get("tls") else ""
    started = "started for this run" if target.get("own") else f"at {address}{secured}" if address else ""
    return ", ".join(filter(None, (model, f"device {device}" if device else "", started)))


def _machine(environment: Json) -> str:
    units = {"cores": "cores", "cpu_quota_cores": "cores of quota", "memory_gib": "GiB"}
    parts = []
    for name in _MACHINE:
        value = text_at(environment, name)
        if value:
            parts.append(f"{value} {units[name]}" if name in units else f"Linux {value}" if name == "kernel" else value)
    return ", ".join(parts)


def _load(result: Json) -> str:
    """What all points have in common."""
    loads = [mapping_at(point, "load") for point in points_of(result)]
    shown = []
    for name in ("loop", "arrivals", "call", "connections", "duration_s", "warmup_s"):
        values = {f"{v:g}" if (v := number_at(load, name)) is not None else text_at(load, name) for load in loads}
        value = values.pop() if len(values) == 1 else ""
        if value:
            shown.append(
                {
                    "loop": f"{value} loop",
                    "arrivals": f"{value} arrivals",
                    "call": f"{value} calls",
                    "connections": f"{value} connections",
                    "duration_s": f"{value} s measured",
                    "warmup_s": f"after {value} s of warm-up",
                }[name]
            )
    return ", ".join(shown)


def _peak(peak: Json) -> str:
    """What a short closed loop found before the points."""
    rate, in_flight = number_at(peak, "rate"), number_at(peak, "in_flight")
    return "" if rate is None else f"{wording.rate(rate)} with {wording.count(in_flight)} in flight"


def _pairs(values: Mapping[str, object]) -> str:
    """name value, name value; lists as a, b; nothing of what is empty."""
    parts = []
    for name in values:
        many = [one_line_of(str(value)) for value in list_at(values, name)]
        value = " ".join(many) or one_line_of(wording.setting(values[name]))
        if value:
            parts.append(f"{wording.words(one_line_of(str(name)))} {value}")
    return ", ".join(parts)
