"""N dispatchers on one GPU under MPS against one: with a host as slow as Python, and with ours.

The same work runs in all of an arm's lanes and dispatchers, and the same calls are in flight:

* A: one dispatcher, one lane, synchronous steps, each prepared as slowly as the Python reference prepares it here;
* B2, B4: two and four of A under MPS;
* C: one dispatcher as it is served, with one lane or two;
* D: two of C under MPS, over one copy of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from bench import gather, prepare
from bench.gpu.arms import Arm, Arms, Claim, duty
from bench.gpu.run import Run
from bench.gpu.servers.preparation import slow_host
from bench.gpu.steps import decoder, encoder
from fastqps.bench.measure.workload import Payloads
from fastqps.supervisor.gpu.mps import PROGRAM, find_program

SLOW = ("A", "B2", "B4")  # synchronous steps of a host as slow as Python
PLACES = {"A": (1, 1), "C, 1 lane": (1, 1), "C, 2 lanes": (1, 2), "B2": (2, 1), "D": (2, 1), "B4": (4, 1)}
_N = "dispatchers under MPS over one, a host as slow as Python"


@dataclass(frozen=True)
class Subject:
    """A model and its load. ``total``: sequences or items that run in all, divided by the setting ``divided``.

    ``python_us``: what the Python reference takes to prepare a step of so many.
    """

    target: str
    base: dict[str, Any]
    payloads: Payloads
    divided: str
    total: int
    in_flight: int
    python_us: Callable[[int], float]
    slow: bool

    def arm(self, name: str) -> Arm:
        """With its part of the work on each lane."""
        dispatchers, lanes = PLACES[name]
        part = max(1, self.total // (dispatchers * lanes))
        many = {"mps": "on", "share-weights": True} if dispatchers > 1 else {"mps": "off"}
        limits = {"lanes": lanes, self.divided: part, "async-steps": name not in SLOW}
        return Arm(name, limits, self.in_flight, {"dispatchers": dispatchers, **many})


def measure(run: Run) -> None:
    """A, C and their rivals by turns: A and C first, all else as the time allows."""
    with TemporaryDirectory() as folder, slow_host() as prepare_in:
        subject = (_encoder if run.shape(run.argument).kind == "encoder" else _decoder)(run, folder)
        claims = [
            Claim("B2", "A", name=f"2 {_N} (B2 ÷ A)"),
            Claim("B4", "A", name=f"4 {_N} (B4 ÷ A)"),
            Claim("D", "C*", subject.target),
            Claim("A", "C*", name="one dispatcher, a host as slow as Python over ours (A ÷ C)"),
            Claim("A", name="A: device busy", unit="%", value=duty),
        ]
        python_us: dict[str, float] = {}
        with Arms(run, run.argument, "/s", claims) as arms:

            def turn(name: str) -> None:
                arm = subject.arm(name)
                if name in SLOW and name not in python_us:
                    python_us[name] = subject.python_us(arm.limits[subject.divided])
                    run.raw("Python, µs a step", python_us)
                prepare_in(python_us.get(name, 0.0))
                arms.turn(arm)

            def serve(*names: str) -> None:
                arms.serve([subject.arm(name) for name in names], subject.base, subject.payloads, slow=subject.slow)

            serve("A", "C, 1 lane", "C, 2 lanes", "B2", "D")
            for name in ("A", "C, 1 lane", "C, 2 lanes"):
                turn(name)
            one = arms.fastest("C*")
            if not _has_mps(run):
                run.leave_out(f"dispatchers under MPS: {PROGRAM} is not here")
            elif one:
                for name in ("B2", "D", "D", one, "A"):  # C D D C, and A B2 A: what drifts meanwhile hits both alike
                    turn(name)
                arms.end_servers()  # one daemon at a time
                serve("B4")
                turn("B4")
    run.finish()


def _has_mps(run: Run) -> bool:
    """A dry run needs none."""
    return run.dry or find_program() is not None


def _decoder(run: Run, folder: str) -> Subject:
    total, base, calls = 8 if run.dry else 2048, decoder.settings_of(run, run.argument), decoder.payloads
    return Subject(
        "dispatchers", base, calls(run, run.argument, folder), "max-running", total, 2 * total,
        lambda running: prepare.python_us(running, max(1, running // decoder.tokens_out(run))), True,
    )  # fmt: skip


def _encoder(run: Run, folder: str) -> Subject:
    total = 8 if run.dry else 512
    base = encoder.settings_of(run) | {"max-batch-tokens": max(512, total * encoder.TOKENS)}
    return Subject(
        "dispatchers-encoder", base, encoder.encoder_texts(run, folder), "max-batch-items", total,
        16 if run.dry else 4096, gather.python_us, False,
    )  # fmt: skip
