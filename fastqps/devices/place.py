"""The arguments of a device's module: the place in which a runner computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from fastqps._core import Segment
from fastqps.devices.errors import DeviceError
from fastqps.models.card import ModelCard


class Options(TypedDict, total=False):
    """The fields of ``Place`` that have a default."""

    dtype: str
    quantization: str
    threads: int
    segment: Segment | None
    index: int
    weights_fd: int
    table_fd: int
    kernels: str
    kernels_fd: int


@dataclass(frozen=True)
class Place:
    """The arguments of a device's module beside the model and the sizes of steps.

    ``threads`` is the number of CPU threads that the runner may use; 0 leaves torch's setting alone.
    """

    device: str  # as ``list_devices`` names it: "cpu", "sim:h200-minilm-l6"
    dtype: str = "auto"
    quantization: str = "none"  # none, fp8, or auto
    threads: int = 0
    segment: Segment | None = None  # in a server: where all dispatchers of the device meet
    index: int = 0  # of the device in the segment
    weights_fd: int = -1  # where the process that holds the weights publishes them; -1: each has its own
    table_fd: int = -1  # a file in memory that a static model's processes share; -1: this process is alone
    kernels: str = "auto"  # own, torch, or auto: own where they agree with torch
    kernels_fd: int = -1  # the file of the server's kernels.journal; -1: this process is alone


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
