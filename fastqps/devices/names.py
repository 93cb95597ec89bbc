"""What ``--device`` names: one device, or several modelled ones."""

from __future__ import annotations

from dataclasses import dataclass

from fastqps.devices.errors import DeviceError
from fastqps.devices.profile import Profile, check_task, load_profile
from fastqps.errors import ConfigError
from fastqps.models.card import ModelCard

DEVICES = ("cpu", "null", "sim")
DEVICES_TEXT = "cpu, null, sim:PROFILE"


@dataclass(frozen=True)
class Device:
    """One device of a server."""

    spec: str  # what ``make_runner`` takes
    label: str  # what people and metrics see; distinct within a server
    profile: Profile | None = None  # of a modelled device

    @property
    def description(self) -> str:
        """The label, and whether its figures were ever measured."""
        return f"{self.label} ({self.profile.status})" if self.profile else self.label

    def check(self, card: ModelCard) -> None:
        """``ConfigError`` where it cannot stand for a device that runs this model."""
        if self.profile:
            check_task(card, self.profile)


def kind_of(spec: str) -> str:
    """The module that a device belongs to: what stands before the colon."""
    return spec.partition(":")[0]


def list_devices(text: str) -> tuple[Device, ...]:
    """``cpu``, ``null``, or one or more ``sim:PROFILE``, separated by commas. Twice the same one is two devices.

    Raises ``ConfigError`` for what makes no sense and for a profile that is wrong, ``DeviceError`` for a device or
    profile that is not there.
    """
    specs = [part.strip() for part in text.split(",")]
    if len(specs) > 1 and any(kind_of(spec) != "sim" for spec in specs):
        raise ConfigError(f"--device {text}: only sim:PROFILE devices can be served side by side")
    devices: list[Device] = []
    seen: dict[str, int] = {}
    for spec in specs:
        found = _device(spec)
        times = seen.get(found.label, 0)
        seen[found.label] = times + 1
        label = f"{found.label}#{times}" if times else found.label
        devices.append(Device(found.spec, label, found.profile))
    return tuple(devices)


def _device(spec: str) -> Device:
    kind, colon, rest = spec.partition(":")
    if kind == "sim":
        if not rest:
            raise ConfigError(f"--device {spec}: write sim:PROFILE, the name of a shipped profile or a file")
        profile = load_profile(rest)
        return Device(spec, f"sim:{profile.name}", profile)
    if kind == "cuda":
        raise DeviceError(f"--device {spec}: this version has no cuda device; it has: {DEVICES_TEXT}")
    if colon or kind not in DEVICES:
        raise ConfigError(f"--device {spec!r} is unknown; this version has: auto, {DEVICES_TEXT}")
    return Device(spec, spec)
