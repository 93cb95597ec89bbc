"""Warnings that a reader needs before the figures mean anything: a modelled device, a busy machine, a closed loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastqps.bench.report import wording
from fastqps.bench.report.points import maps, number, text
from fastqps.bench.results.environment import OTHERS
from fastqps.bench.results.result import Result

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
        labels.append(_simulated(device, maps(result.target.get("profiles"))))
    others = number(result.environment, OTHERS)
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


def _simulated(device: str, profiles: list[Mapping[str, Any]]) -> Label:
    listed = "; ".join(f"{text(profile, 'name')}: {text(profile, 'source')}" for profile in profiles)
    source = f" ({listed})" if listed else ""
    estimated = [text(profile, "name") for profile in profiles if profile.get("status") == "estimated"]
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
