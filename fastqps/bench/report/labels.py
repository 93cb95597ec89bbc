"""What a reader must know before the figures mean anything: a modelled device, estimated costs, no device at all."""

from __future__ import annotations

from dataclasses import dataclass

from fastqps.bench.report.reading import Json, list_at, mapping_at, points_of, text_at


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
    if any(text_at(point, "load", "loop") == "closed" for point in points_of(result)):
        labels.append(
            Label(
                "Closed loop",
                "the generator sends only when an answer has come. That shows peak throughput and the time of one "
                "request "
                "among so many, but hides queueing: its latencies are not for objectives.",
            )
        )
    if text_at(result, "verdict") == "INTERRUPTED" or any(point.get("interrupted") for point in points_of(result)):
        labels.append(Label("Interrupted", "the run was ended early. What was measured until then is shown."))
    return labels


def _simulated(result: Json, device: str) -> Label:
    profiles = [profile for profile in list_at(result, "target", "profiles") if mapping_at(profile)]
    if not profiles:
        return Label(
            "Simulated device", f"{device} is a modelled device. The host path is real, its step times are not."
        )
    measured = all(text_at(profile, "status") == "measured" for profile in profiles)
    sources = "; ".join(_profile(profile) for profile in profiles)
    if measured:
        return Label("Simulated device", f"step times are replayed from measured ones ({sources}).")
    return Label(
        "Simulated device, estimated profile",
        f"step times come from an estimate, not from a measurement ({sources}). "
        "Rates and times say how the host path behaves, not how fast that device is.",
    )


def _profile(profile: Json) -> str:
    source = text_at(profile, "source")
    return f"{text_at(profile, 'name') or 'profile'}: {source}" if source else text_at(profile, "name") or "profile"
