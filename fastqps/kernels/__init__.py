"""The GPU kernels, in Triton. Each module is one kernel and the launcher that takes its tensors."""

from __future__ import annotations

import importlib.util

TRITON_MISSING = "" if importlib.util.find_spec("triton") else "the package triton is not installed"
