"""cuBLASLt through ctypes: the algorithms that it proposes for a product of bf16 matrices, and a call of one of them.

Sizes and values are those of NVIDIA's cublasLt.h, compared with the one of version 13.1.
Matrices are stored by columns there. So a row-major product ``x @ weight.T`` is ``weight.T`` transposed, times ``x``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUCCESS = 0
R_32F, R_16BF, COMPUTE_32F = 0, 14, 68
TRANSA, EPILOGUE, BIAS_POINTER = 3, 7, 8  # of a product's descriptor
WORKSPACE_MOST = 1  # of a preference
EPILOGUES = {"": 1, "bias": 4, "gelu": 36}  # gelu: of the sum with the bias, by tanh
TRANSPOSED = 1
# attribute: (its number, its bytes). Tile, stages and cluster are cublasLtMatmulTile_t and so on.
CONFIG = {"id": (0, 4), "tile": (1, 4), "split_k": (2, 4), "stages": (6, 4), "cluster": (8, 2)}


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t: opaque."""

    _fields_ = [("data", c_uint64 * 8)]


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algorithm", Algorithm), ("workspace", c_size_t), ("state", c_int), ("waves", c_float), ("_", c_int * 4)
    ]  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """An algorithm for one product, the bytes of workspace that it needs, and the waves that it takes."""

    algorithm: bytes
    workspace: int
    waves: float
    config: dict[str, int]


@dataclass(frozen=True)
class Shape:
    """``rows`` of ``inputs`` numbers to ``outputs``. ``epilogue``: of EPILOGUES. ``adds``: to what is there."""

    rows: int
    inputs: int
    outputs: int
    epilogue: str = ""
    adds: bool = False


class LtError(Exception):
    """A call was refused."""


def loaded_path() -> str:
    """Of the cuBLASLt that torch has loaded: it does so at its first product. ``LtError`` where there is none."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    found = {path for line in lines if (path := line.partition("/")[2]) and "libcublasLt.so" in path}
    if not found:
        raise LtError("torch has loaded no libcublasLt.so, although it has computed a product")
    return f"/{min(found)}"


class Library:
    """One loaded cuBLASLt, and a handle of it."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.cublasLtGetVersion.restype = c_size_t
        self.version = int(self._library.cublasLtGetVersion())
        self.handle = self.make("cublasLtCreate")

    def make(self, name: str, *words: Any) -> c_void_p:
        """Whatever that function creates."""
        made = c_void_p()
        self.call(name, byref(made), *words)
        return made

    def call(self, name: str, *words: Any) -> None:
        """``LtError`` where it does not return success."""
        if status := getattr(self._library, name)(*words):
            told = self._library.cublasLtGetStatusString
            told.restype = c_char_p
            raise LtError(f"{name}: {told(status).decode()} ({status})")

    def close(self) -> None:
        """Gives the handle back."""
        self.call("cublasLtDestroy", self.handle)


class Product:
    """One shape's descriptors; a context manager. ``bias``: the address of [outputs], 0 for none."""

    def __init__(self, library: Library, shape: Shape, bias: int = 0) -> None:
        self._library, self._closes = library, list[Callable[[], None]]()
        self._alpha, self._beta = c_float(1), c_float(float(shape.adds))
        self._descriptor = self._make("MatmulDesc", c_int(COMPUTE_32F), c_int(R_32F))
        self._set("MatmulDesc", self._descriptor, TRANSA, c_int32(TRANSPOSED))
        self._set("MatmulDesc", self._descriptor, EPILOGUE, c_int32(EPILOGUES[shape.epilogue]))
        if shape.epilogue:
            self._set("MatmulDesc", self._descriptor, BIAS_POINTER, c_void_p(bias))
        self._weight = self._layout(shape.inputs, shape.outputs)
        self._x = self._layout(shape.inputs, shape.rows)
        self._out = self._layout(shape.outputs, shape.rows)

    def choices(self, workspace: int, most: int = 16) -> list[Choice]:
        """What cuBLASLt proposes with so much workspace, the one that it holds for the best first."""
        preference = self._make("MatmulPreference")
        self._set("MatmulPreference", preference, WORKSPACE_MOST, c_size_t(workspace))
        results, count = (Heuristic * most)(), c_int()
        self._library.call(
            "cublasLtMatmulAlgoGetHeuristic", self._library.handle, self._descriptor, self._weight, self._x, self._out,
            self._out, preference, c_int(most), results, byref(count),
        )  # fmt: skip
        found = [each for each in results[: count.value] if each.state == SUCCESS]
        return [Choice(bytes(each.algorithm), each.workspace, each.waves, self._config(each)) for each in found]

    def run(self, choice: Choice, x: int, weight: int, out: int, workspace: tuple[int, int], stream: int) -> None:
        """Enqueues it. ``x`` [rows, inputs], ``weight`` [outputs, inputs] and ``out`` [rows, outputs] are addresses,
        ``workspace`` an address and its bytes."""
        algorithm = Algorithm.from_buffer_copy(choice.algorithm)
        address, size = workspace
        self._library.call(
            "cublasLtMatmul", self._library.handle, self._descriptor, byref(self._alpha), c_void_p(weight),
            self._weight, c_void_p(x), self._x, byref(self._beta), c_void_p(out), self._out, c_void_p(out), self._out,
            byref(algorithm), c_void_p(address), c_size_t(size), c_void_p(stream),
        )  # fmt: skip

    def __enter__(self) -> Product:
        return self

    def __exit__(self, *words: object) -> None:
        for close in reversed(self._closes):
            close()

    def _make(self, kind: str, *words: Any) -> c_void_p:
        made = self._library.make(f"cublasLt{kind}Create", *words)
        self._closes.append(lambda: self._library.call(f"cublasLt{kind}Destroy", made))
        return made

    def _layout(self, rows: int, columns: int) -> c_void_p:
        return self._make("MatrixLayout", c_int(R_16BF), c_uint64(rows), c_uint64(columns), c_int64(rows))

    def _set(self, kind: str, made: c_void_p, attribute: int, value: Any) -> None:
        self._library.call(f"cublasLt{kind}SetAttribute", made, c_int(attribute), byref(value), c_size_t(sizeof(value)))

    def _config(self, found: Heuristic) -> dict[str, int]:
        config = {}
        for name, (attribute, size) in CONFIG.items():
            value, written = c_uint64(), c_size_t()
            self._library.call(
                "cublasLtMatmulAlgoConfigGetAttribute", byref(found.algorithm), c_int(attribute), byref(value),
                c_size_t(size), byref(written),
            )  # fmt: skip
            config[name] = int(value.value)
        return config
