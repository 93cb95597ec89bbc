"""The CUDA runtime without a GPU (csrc/tests/cuda/fake_cuda): built when first asked for, and its knobs."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache

from paths import ROOT

VARIABLE = "FASTQPS_TEST_FAKE_CUDA"


@cache
def library(name: str = "libfakecudart.so") -> str:
    """The path of the library; ``FASTQPS_TEST_FAKE_CUDA`` with it makes the device cuda a fake one.

    ``libfakeamdhip64.so`` is the same with the names of AMD's HIP.
    """
    target = f"build/native/{name}"
    subprocess.run(["make", "-s", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return str(ROOT / target)


def environment(**knobs: int) -> dict[str, str]:
    """For a server whose GPUs are fake ones."""
    return {VARIABLE: library(), "FASTQPS_FAKE_CUDA": ",".join(f"{name}={value}" for name, value in knobs.items())}


class Knobs:
    """Of the library in this process; each is set back at the end of a ``with``."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(library())
        self._library.fakeSet.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        self._library.fakeCount.restype = ctypes.c_int64

    def set(self, name: str, value: int) -> None:
        assert self._library.fakeSet(name.encode(), value), f"no knob {name}"

    def mark(self) -> None:
        self._library.fakeMark()

    def count(self, entry: str) -> int:
        """Calls of an entry point since ``mark``."""
        return int(self._library.fakeCount(entry.encode()))
