"""The settings that a static model does not have, whatever device runs it."""

from __future__ import annotations

from fastqps.devices.errors import DeviceError
from fastqps.devices.place import Place
from fastqps.models.card import ModelCard

_KNOWN = (("dtype", ("auto", "float32")), ("quantization", ("none", "auto")))


def check_static_settings(card: ModelCard, place: Place) -> None:
    """``DeviceError`` for a type or quantization other than that of the table."""
    for setting, known in _KNOWN:
        given = getattr(place, setting)
        if given not in known:
            raise DeviceError(
                f"--{setting} {given} has no effect on {card.name}, a static model: its table is read as it is stored, "
                f"and summed in float32; leave --{setting} at {known[0]}"
            )
