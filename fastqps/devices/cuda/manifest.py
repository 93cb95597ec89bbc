"""The manifest of a model's parameters on a GPU: the process that holds them publishes it for those that map them."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass

from fastqps.devices.errors import DeviceError
from fastqps.process.startup import STARTUP

WAIT_S_MAX = 600.0  # a large model from a slow disk
_POLL_S = 0.02
_LENGTH_BYTES = 8
_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """``layout``: as ``SharedParameters``'. ``about``: what decides where each parameter lies, in words."""

    handle: str  # CUDA's, 64 bytes in hex
    size_bytes: int
    layout: str
    about: dict[str, str]

    def check(self, about: dict[str, str]) -> None:
        """Raises ``DeviceError`` if the held weights are not those that a reader expects."""
        other = [
            f"{name} {self.about.get(name)}, not {wanted}"
            for name, wanted in about.items()
            if self.about.get(name) != wanted
        ]
        if other:
            raise DeviceError(f"--share-weights: what is shared is of {'; '.join(other)}")


def publish(fd: int, manifest: Manifest) -> None:
    """Writes it where the readers look: a file in memory, its length first and last of all."""
    text = json.dumps(asdict(manifest)).encode()
    os.pwrite(fd, text, _LENGTH_BYTES)
    os.pwrite(fd, len(text).to_bytes(_LENGTH_BYTES, "little"), 0)


def await_manifest(fd: int, wait_s_max: float = WAIT_S_MAX) -> Manifest:
    """Waits until it is there. ``DeviceError`` where that takes too long."""
    give_up = time.monotonic() + wait_s_max
    with STARTUP.stage("waiting"):
        while not (size := int.from_bytes(os.pread(fd, _LENGTH_BYTES, 0), "little")):
            if time.monotonic() > give_up:
                raise DeviceError(
                    f"--share-weights: the process that holds the weights took more than {wait_s_max:g} s"
                )
            time.sleep(_POLL_S)
    if size > _BYTES_MAX:
        raise DeviceError(f"--share-weights: a manifest of {size} bytes is none")
    return Manifest(**json.loads(os.pread(fd, size, _LENGTH_BYTES)))
