"""One choice of ``--quantization auto`` for all processes that serve a model: the first one measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from fastqps.devices.choice_file import now_utc
from fastqps.devices.stored_choice import PRECISION, Choice, Circumstances
from fastqps.models.card import ModelCard
from fastqps.ops.precision import Precision


@contextmanager
def shared_choice(precision: Precision, card: ModelCard, device: str, dtype: torch.dtype) -> Iterator[None]:
    """Within it the model is built: ``precision`` recalls what is stored, or what it measures is stored.

    Other processes that would measure the same wait meanwhile. ``device``: the make of the device, for all of one make
    are equally fast.
    """
    if precision.quantization != "auto":
        yield
        return
    path = PRECISION.path(Path(card.path))
    name = str(dtype).removeprefix("torch.")
    circumstances = Circumstances(device, str(torch.__version__), name, precision.rows)
    with ExitStack() as stack:
        choice = PRECISION.find(path, circumstances, precision.log)
        if choice is None:
            stack.enter_context(PRECISION.measuring(precision.log))
            choice = PRECISION.find(path, circumstances, lambda line: None)  # stored meanwhile by the process before
        if choice is not None:
            precision.recall(choice.products)
            precision.log(f"quantization auto: choice of {choice.measured} read from {path}")
            stack.close()  # nothing is measured: the others need not wait until this process has loaded the model
        yield
        if precision.measured:
            PRECISION.store(path, circumstances, Choice(now_utc(), precision.timed), precision.log)
