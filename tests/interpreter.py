"""Triton's interpreter, in which kernels are tested where there is no GPU."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch


def interpret_kernels() -> None:
    """To be called before anything imports kernels: how they run is decided where they are defined."""
    if torch.cuda.is_available():
        return
    os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton"):
        _let_scalars_be_bounds()


def _let_scalars_be_bounds() -> None:
    """Lets ``range`` take loaded bounds: the interpreter's scalars are arrays [1], of which numpy 2.4 makes no int."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def with_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = with_index
