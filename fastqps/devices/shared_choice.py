"""One choice of ``--quantization auto`` for all processes that serve a model: the first one measures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import torch

from fastqps.devices.errors import DeviceError
from fastqps.devices.start_lock import alone
from fastqps.devices.stored_choice import Choice, Circumstances, find_choice, places, store_choice
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
    where = places(root)
    name = str(dtype).removeprefix("torch.")
    circumstances = Circumstances(card.version, device, str(torch.__version__), name, precision.rows)
    with ExitStack() as stack:
        found = find_choice(where, circumstances, precision.log)
        if found is None:
            _lock(stack, root, precision)
            found = find_choice(where, circumstances, lambda line: None)  # the process before has stored it meanwhile
        if found is not None:
            path, choice = found
            precision.recall(choice.products)
            precision.log(f"quantization auto: choice of {choice.measured} read from {path}")
            stack.close()  # nothing is measured: the others need not wait until this process has loaded the model
        yield
        if precision.measured:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            store_choice(where, circumstances, Choice(now, precision.timed), precision.log)


def _lock(stack: ExitStack, root: Path, precision: Precision) -> None:
    """One lock for all that is stored for a model, so that nobody writes over what another has just stored."""
    digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    try:
        stack.enter_context(alone(f"precision-{digest}", "measuring quantised products"))
    except DeviceError as error:
        precision.log(f"quantization auto: warning: {error}; this process measures for itself")
