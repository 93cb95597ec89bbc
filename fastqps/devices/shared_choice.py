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
    root = Path(card.path)
    where = PRECISION.places(root)
    name = str(dtype).removeprefix("torch.")
    circumstances = Circumstances(card.version, device, str(torch.__version__), name, precision.rows)
    with ExitStack() as stack:
        found = PRECISION.find(where, circumstances, precision.log)
        if found is None:
            stack.enter_context(PRECISION.measuring(precision.log))
            found = PRECISION.find(where, circumstances, lambda line: None)  # stored meanwhile by the process before
        if found is not None:
            path, choice = found
            precision.recall(choice.products)
            precision.log(f"quantization auto: choice of {choice.measured} read from {path}")
            stack.close()  # nothing is measured: the others need not wait until this process has loaded the model
        yield
        if precision.measured:
            PRECISION.store(where, circumstances, Choice(now_utc(), precision.timed), precision.log)
