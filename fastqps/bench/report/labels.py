"""What a reader must know before the figures mean anything: a modelled device, estimated costs, no device at all."""

from __future__ import annotations

from dataclasses import dataclass

from fastqps.bench.report import wording
from fastqps.bench.report.reading import Json, list_at, mapping_at, number_at, points_of, text_at

QUIET = 0.1  # of the CPU time taken by others is still no reason to mention them


@dataclass(frozen=True)
class Label:
    """One warning sign: a few words, and a sentence."""

    title: str
    text: str


def labels_of(result: Json) -> list[Label]:
    """Those that the run needs; none for a real device that was measured to the end."""
    device = text_at(result, "target", "device")
    labels = []
    if device == "null":
        labels.append(
            Label(
                "Null device",
                "it computes nothing and answers at once. This is the ceiling of the host path, not of a model.",
            )
        )
    elif device.startswith("sim"):
        labels.append(_simulated(result, device))
    others = number_at(result, "environment", "other_programs_cpu_share")
    if others is not None and others > QUIET:
        labels.append(
            Label(
                "Busy machine",
                f"other programs took {wording.percent(others)} of the CPU time meanwhile. Rates suffer from that, "
                "latencies more.",
            )
        )
    if any(text_at(point, "load", "loop") == "closed" for point in points_of(result)):
        labels.append(
            Label(
                "Closed loop",
                "the generator sends only when an answer has come. That shows peak throughput and the time of one of "
                "so "
                "many requests, but hides queueing: its latencies are not for objectives.",
            )
        )
    if text_at(result, "verdict") == "INTERRUPTED" or any(point.get("interrupted") for point in points_of(result)):
        labels.append(Label("Interrupted", "the run was ended early. What was measured until then is shown."))
    return labels


def _simulated(result: Json, device: str) -> Label:
    profiles = [profile for profile in list_at(result, "target", "profiles") if mapping_at(profile)]
    said = "; ".join(f"{text_at(profile, 'name')}: {text_at(profile, 'source')}" for profile in profiles)
    source = f" ({said})" if said else ""
    estimated = [text_at(profile, "name") for profile in profiles if text_at(profile, "status") == "estimated"]
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
