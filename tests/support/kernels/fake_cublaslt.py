"""cuBLASLt without a GPU (fake_cublaslt.c), compiled when it is first asked for."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
FOLDER = Path(__file__).parents[3] / "build/native"


@cache
def library() -> str:
    """The path of the library. Several processes may build it at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, own = FOLDER / "libfakecublasLt.so", FOLDER / f"libfakecublasLt.{os.getpid()}.so"
    flags = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(SOURCE), "-lm", "-o", str(own)], check=True)
    own.replace(path)
    return str(path)
