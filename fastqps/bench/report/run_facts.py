"""The facts of a run (command, machine, time, software), without which a figure cannot be judged or repeated, and the
warnings that a reader needs before it means anything: a modelled device, a busy machine, a closed loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastqps.bench.report import wording
from fastqps.bench.report.points import text
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
    others = where.get(OTHERS)
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
    common = {name: shown.pop() for name, shown in values.items() if len(shown) == 1}
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
            parts.append(f"{wording.spaced(str(name))} {shown}")
    return ", ".join(parts)


QUIET = 0.1  # share of the CPU time that other programs may take without a label


class Label(NamedTuple):
    """A few words, and a sentence."""

    title: str
    text: str


def labels_of(result: Result) -> list[Label]:
    """The labels that the run needs; none for a real device that was measured to the end."""
    device = text(result.target, "device")
    labels = []
    if device == "null":
        ceiling = "it computes nothing and answers at once. This is the ceiling of the host path, not of a model."
        labels.append(Label("Null device", ceiling))
    elif device.startswith("sim"):
        labels.append(_simulated(device, result.target.get("profiles", ())))
    others = result.environment.get(OTHERS)
    if others is not None and others > QUIET:
        took = f"other programs took {wording.percent(others)} of the CPU time meanwhile."
        labels.append(Label("Busy machine", f"{took} Rates suffer from that, latencies more."))
    if any(point.load.get("loop") == "closed" for point in result.points):
        loop = (
            "the generator sends only when an answer has come. That shows peak throughput and the time of one of so "
            "many requests, but hides queueing: its latencies are not for objectives."
        )
        labels.append(Label("Closed loop", loop))
    if result.verdict in ("INTERRUPTED", "FAILED") or any(point.interrupted for point in result.points):
        shown = "What was measured until then is shown." if result.points else "Nothing had been measured by then."
        labels.append(Label("Interrupted", f"the run was ended early. {shown}"))
    return labels


def _simulated(device: str, profiles: Sequence[Mapping[str, Any]]) -> Label:
    listed = "; ".join(f"{profile['name']}: {profile['source']}" for profile in profiles)
    source = f" ({listed})" if listed else ""
    estimated = [profile["name"] for profile in profiles if profile["status"] == "estimated"]

    if estimated:
        which = device if len(estimated) == len(profiles) else ", ".join(f"sim:{name}" for name in estimated)
        return Label(
            "Simulated device, estimated profile",
            f"the step times of {which} are an estimate, nobody has measured them{source}. Rates and times show how "
            "the host's part behaves, not how fast such a device is.",
        )
    if profiles:
        return Label("Simulated device", f"the step times of {device} are modelled after measured ones{source}.")
    return Label("Simulated device", f"{device} is a modelled device: the host's part is real, step times are not.")
