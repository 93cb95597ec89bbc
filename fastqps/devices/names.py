"""Parses ``--device``: it names one device, or several GPUs or modelled devices. Resolves ``--dtype`` for it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from fastqps.devices.cuda_choice import choose_device, chosen_gpus
from fastqps.devices.profile import Profile, check_task
from fastqps.devices.profile_file import load_profile
from fastqps.errors import ConfigError, ModelError
from fastqps.host import machine
from fastqps.host.gpus import Gpu
from fastqps.models.card import ModelCard
from fastqps.models.card_folder import open_card

DEVICES = ("cpu", "cuda", "null", "sim")
DEVICES_TEXT = "cpu, cuda, cuda:0,1, null, sim:PROFILE, remote"


@dataclass(frozen=True)
class Device:
    """One device of a server."""

    spec: str  # the argument of ``make_runner`` in this process
    label: str  # the name for people and metrics; distinct within a server
    profile: Profile | None = None  # of a modelled device
    gpu: Gpu | None = None

    @property
    def description(self) -> str:
        """The label with the GPU's name, or with a note that its figures were not measured."""
        about = self.profile.status if self.profile else self.gpu.name if self.gpu else ""
        return f"{self.label} ({about})" if about else self.label

    @property
    def spec_alone(self) -> str:
        """The argument of ``make_runner`` in a process that sees no other GPU, as a server's dispatchers do."""
        return "cuda:0" if self.gpu else self.spec

    @property
    def make(self) -> str:
        """The same for devices that are equally fast."""
        if self.profile:
            figures = json.dumps(dataclasses.asdict(self.profile)).encode()
            return f"sim {self.profile.name} {hashlib.sha256(figures).hexdigest()[:12]}"
        return self.gpu.name if self.gpu else machine.cpu_model()

    def check(self, card: ModelCard) -> None:
        """Raises ``ConfigError`` if the profile cannot model a device that runs this model, and ``ModelError`` if the
        device needs weights, and there is only a card."""
        check_weights(self.spec, card)
        if self.profile:
            check_task(card, self.profile)


def check_weights(spec: str, card: ModelCard) -> None:
    """Raises ``ModelError`` if the device computes, and the model's folder has nothing to compute with."""
    if kind_of(spec) in ("cpu", "cuda") and open_card(Path(card.path)):
        raise ModelError(
            f"{card.path}: it holds a card and no weights, which the device {spec} needs; it is for --device remote"
        )


def kind_of(spec: str) -> str:
    """The module of a device: the part before the colon."""
    return spec.partition(":")[0]


def resolve_dtype(device: str, dtype: str) -> str:
    """``auto`` as the device takes it: bfloat16 on a GPU and on a CPU that multiplies it natively, else float32 on a
    CPU. Devices that do not compute keep what they are given."""
    if dtype != "auto" or not device.startswith(("cpu", "cuda")):
        return dtype
    return "bfloat16" if device.startswith("cuda") or machine.bfloat16_flags() else "float32"


def list_devices(text: str) -> tuple[Device, ...]:
    """``cpu``, ``null``, ``cuda`` (every visible GPU), ``cuda:0,1`` (these), or one or more ``sim:PROFILE``, separated
    by commas. Twice the same profile is two devices.

    Raises ``ConfigError`` for what makes no sense and for a profile that is wrong, ``DeviceError`` for a device or
    profile that is not there.
    """
    if kind_of(text) == "cuda":
        return tuple(Device(f"cuda:{gpu.index}", f"cuda:{gpu.index}", gpu=gpu) for gpu in chosen_gpus(text))
    specs = [part.strip() for part in text.split(",")]
    if len(specs) > 1 and any(kind_of(spec) != "sim" for spec in specs):
        raise ConfigError(f"--device {text}: only GPUs, or sim:PROFILE devices, can be served side by side")
    devices: list[Device] = []
    seen: dict[str, int] = {}
    for spec in specs:
        device = _device(spec)
        times = seen.get(device.label, 0)
        seen[device.label] = times + 1
        label = f"{device.label}#{times}" if times else device.label
        devices.append(Device(device.spec, label, device.profile))
    return tuple(devices)


def one_device(text: str) -> str:
    """The argument of ``make_runner`` in this process: ``auto`` and ``cuda`` become one device, the rest stays.

    ``cuda`` is the first visible GPU. Raises as ``list_devices``.
    """
    text = choose_device().device if text == "auto" else text
    if kind_of(text) != "cuda":
        return text
    devices = list_devices(text)
    if len(devices) > 1 and text != "cuda":
        raise ConfigError(f"the device {text} is {len(devices)} GPUs; here a model runs on one")
    return devices[0].spec


def _device(spec: str) -> Device:
    kind, colon, rest = spec.partition(":")
    if kind == "sim":
        if not rest:
            raise ConfigError(f"--device {spec}: write sim:PROFILE, the name of a shipped profile or a file")
        profile = load_profile(rest)
        return Device(spec, f"sim:{profile.name}", profile)
    if colon or kind not in (*DEVICES, "remote"):  # which has no runner: an edge's dispatchers send their steps away
        raise ConfigError(f"--device {spec!r} is unknown; this version has: auto, {DEVICES_TEXT}")
    return Device(spec, spec)
