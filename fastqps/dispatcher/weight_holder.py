"""Holds one copy of a model's weights on a GPU, which all its dispatchers there map (--share-weights).

It does nothing else. The supervisor ends it after the last of these dispatchers.
"""

from __future__ import annotations

import signal

from fastqps._core import CudaError, Segment
from fastqps.devices import DeviceFault, hold_weights
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.process.children import HolderSettings

END = signal.SIGUSR1


def main(settings: HolderSettings) -> int:
    """Holds the weights until the supervisor ends the process. Raises like a dispatcher if they cannot be loaded."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {END})  # blocked for sigwait, however early the signal comes
    card = ModelCard.from_json(Segment(settings.segment_fd).card(settings.route))
    try:
        hold_weights(
            settings.device,
            card,
            dtype=settings.dtype,
            quantization=settings.quantization,
            weights_fd=settings.weights_fd,
        )
        check_files(card)
    except CudaError as error:
        raise DeviceFault(f"the device has failed: {error}") from error
    signal.sigwait({END})
    return 0
