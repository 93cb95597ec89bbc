"""Whether a kernel computes what the operation in plain torch does, on random input of the shapes that a model has.

* ``shape``: what of a call's arguments Triton compiles a kernel for, in words.
* ``inputs``, ``encoder_inputs``, ``decoder_inputs``: a small random step in place of a call's arguments.
* ``agreement``: how far two results may be apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastqps.kernels.checks.agreement import Difference, compare
from fastqps.kernels.checks.decoder_inputs import DECODER_INPUTS
from fastqps.kernels.checks.encoder_inputs import ENCODER_INPUTS
from fastqps.kernels.checks.inputs import Random
from fastqps.kernels.checks.shape import arguments_of, shape_of

INPUTS = ENCODER_INPUTS | DECODER_INPUTS

__all__ = ["INPUTS", "Difference", "arguments_of", "check", "shape_of"]


def check(
    name: str, kernel: Callable[..., Any], plain: Callable[..., Any], arguments: dict[str, Any]
) -> Difference | None:
    """Runs both on the same random step; what differs by more than it may, or None. Waits for the device.

    ``arguments`` are those of a model's call. Types, strides and parameters are taken from them, and they are not
    written. Raises what the kernel or its compiler raises.
    """
    case = INPUTS[name](Random(arguments), arguments)
    found, wanted = case.run(kernel), case.run(plain)
    return next(filter(None, (compare(result, found[result], wanted[result]) for result in wanted)), None)
