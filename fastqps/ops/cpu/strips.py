"""Products of small matrices on the CPU, without torch. BLAS gives a row other bits by the rows beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastqps import _core

Floats = NDArray[np.float32]
_STRIP = 16  # outputs that lie together


class Strips:
    """x float32 [rows, inputs] → x · weightᵀ + bias [rows, outputs], each row as if it were alone."""

    def __init__(self, weight: Floats, bias: Floats | None) -> None:
        self.outputs, self._inputs = weight.shape
        padded = np.pad(np.asarray(weight, np.float32), ((0, -self.outputs % _STRIP), (0, 0)))
        self._strips = np.ascontiguousarray(padded.reshape(-1, _STRIP, self._inputs).transpose(0, 2, 1))
        self._bias = None if bias is None else np.ascontiguousarray(bias, np.float32)
        self._factors = self._strips.ctypes.data, 0 if self._bias is None else self._bias.ctypes.data

    def __call__(self, x: Floats) -> Floats:
        assert x.dtype == np.float32 and x.flags.c_contiguous
        out = np.empty((len(x), self.outputs), np.float32)
        self.add_to(_core.Program.at_once(1), out.ctypes.data, x.ctypes.data, len(x))
        return out

    def add_to(self, program: _core.Program, out: int, x: int, n_rows: int, activation: str = "identity") -> None:
        """Adds the product of the rows at address ``x`` and its activation to a program, which writes to ``out``."""
        program.project(out, x, n_rows, *self._factors, self._inputs, self.outputs, activation)
