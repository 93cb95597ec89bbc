"""Holds a model's weights on a GPU, for all dispatchers of both: one copy, which each of them maps. --share-weights.

It does nothing else, and outlives them: the supervisor ends it when the last of them has ended.
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
    """Until the supervisor says so. Raises as a dispatcher where the weights cannot be loaded."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {END})  # for sigwait, and however early it comes
    card = ModelCard.from_json(Segment(settings.segment_fd).card(settings.route))
    try:
        hold_weights(
            settings.device,
            card,
            settings.max_running,
            settings.max_batch_tokens,
            dtype=settings.dtype,
            quantization=settings.quantization,
            weights_fd=settings.weights_fd,
        )
        check_files(card)
    except CudaError as error:
        raise DeviceFault(f"the device has failed: {error}") from error
    signal.sigwait({END})
    return 0
