"""Kernels of the fake GPU that fail as a new GPU's may: for tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

FAULTS = "FASTQPS_TEST_KERNEL_FAULTS"  # "pool=compile,add_norm=miscompute,sample=crash"


def faulty(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """``kernel`` with the fault that the environment has for its name."""
    faults = dict(part.partition("=")[::2] for part in os.environ.get(FAULTS, "").split(",") if part)
    if name not in faults:
        return kernel

    def fail(*args: Any, **named: Any) -> Any:
        match faults[name]:
            case "compile":
                raise RuntimeError("PassManager::run failed\nat line 7")
            case "crash":
                os.abort()
            case "miscompute":
                return _spoiled(kernel(*args, **named), named)
            case fault:
                raise ValueError(f"{FAULTS}: no fault {fault!r}")

    return fail


def _spoiled(returned: Any, arguments: dict[str, Any]) -> Any:
    """The result with an error of a tenth; of one that only writes, its tokens with one of 1 or its logits."""
    if returned is None:
        returned = (arguments["tokens"] if "tokens" in arguments else arguments["logits"],)
    found = (returned,) if isinstance(returned, torch.Tensor) else returned
    values = next(x for x in found if x is not None)
    values += 0.1 * values.abs() if values.is_floating_point() else 1
    return returned
