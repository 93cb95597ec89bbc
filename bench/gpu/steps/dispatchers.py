"""Two dispatchers on one GPU under MPS, over one copy of the weights, against one with one lane or two.

The same work runs in all of an arm's lanes and dispatchers, and the same calls are in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from bench.gpu.run import Run
from bench.gpu.servers.arms import Arm, Arms, Claim
from bench.gpu.steps import decoder, encoder
from fastqps.bench.measure.workload import Payloads
from fastqps.supervisor.gpu.mps import PROGRAM, find_program

PLACES = {"one dispatcher, 1 lane": (1, 1), "one dispatcher, 2 lanes": (1, 2), "two dispatchers": (2, 1)}


@dataclass(frozen=True)
class Subject:
    """A model and its load. ``total``: sequences or items that run in all, divided by the setting ``divided``."""

    target: str
    base: dict[str, Any]
    payloads: Payloads
    divided: str
    total: int
    in_flight: int

    def arm(self, name: str) -> Arm:
        """With its part of the work on each lane."""
        dispatchers, lanes = PLACES[name]
        limits = {"lanes": lanes, self.divided: self.total // (dispatchers * lanes)}
        many = {"mps": "on", "share-weights": True} if dispatchers > 1 else {"mps": "off"}
        return Arm(name, limits, self.in_flight, {"dispatchers": dispatchers, **many})


def measure(run: Run) -> None:
    """One dispatcher first, and again behind the two: what drifts meanwhile hits both alike."""
    with TemporaryDirectory() as folder:
        encodes = run.shape(run.argument).kind == "encoder"
        subject = _encoder(run, folder) if encodes else _decoder(run, folder)
        with Arms(run, run.argument, "/s", [Claim("two dispatchers", "one dispatcher*", subject.target)]) as arms:
            placed = {name: subject.arm(name) for name in PLACES}
            arms.serve(list(placed.values()), subject.base, subject.payloads, slow=not encodes)
            one, tuned, two = placed.values()
            arms.turn(one)
            arms.turn(tuned)
            if not _has_mps(run):
                run.leave_out(f"two dispatchers under MPS: {PROGRAM} is not here")
            elif best := placed.get(arms.fastest("one dispatcher*")):
                for arm in (two, two, best):
                    arms.turn(arm)
    run.finish()


def _has_mps(run: Run) -> bool:
    """A dry run needs none."""
    return run.dry or find_program() is not None


def _decoder(run: Run, folder: str) -> Subject:
    total, calls = 8 if run.dry else 2048, decoder.payloads(run, run.argument, folder)
    return Subject(
        "dispatchers", decoder.settings_of(run, run.argument), calls, "max-running", total, 2 * total
    )  # fmt: skip


def _encoder(run: Run, folder: str) -> Subject:
    total, calls = 8 if run.dry else 512, encoder.encoder_texts(run, folder)
    base = encoder.settings_of(run) | {"max-batch-tokens": max(512, total * encoder.TOKENS)}
    return Subject("dispatchers-encoder", base, calls, "max-batch-items", total, 16 if run.dry else 4096)
