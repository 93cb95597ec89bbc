"""The parts of the suite, their steps, and how long each step may take."""

from __future__ import annotations

from dataclasses import dataclass

PART_S = 455.0  # a part ends within eight minutes, its start and an end by force included


BRIEF = 0.45  # of a step's time, where little is left: fewer points, shorter and once each


@dataclass(frozen=True)
class Part:
    """``steps``: modules under bench.gpu and the seconds that each may take."""

    what: str
    steps: dict[str, float]


PARTS = {
    "correct": Part("tests that need a GPU", {"parts.correct": 450}),
    "micro": Part(
        "what decides how things are built",
        {
            "micro.launch": 30,
            "micro.gemm": 85,
            "micro.attention": 45,
            "micro.slots": 25,
            "micro.copies": 20,
            "micro.forward": 115,
            "micro.lanes": 25,
            "micro.gpm": 25,
            "micro.overlap": 50,
            "micro.ipc": 35,
        },
    ),
    "kernels": Part(
        "each kernel's time and bound, and what a step's time goes into", {"parts.kernels": 255, "parts.profile": 200}
    ),
    "encoder": Part("MiniLM in-process and over gRPC, and the transport's ceiling", {"parts.encoder": 450}),
    "decoder": Part("50 tokens in, 50 out", {"parts.decoder": 450}),
    "peers": Part("transformers and sentence-transformers", {"parts.decoder_peers": 310, "parts.encoder_peers": 145}),
    "fp8": Part("bf16, fp8 and auto", {"parts.fp8": 450}),
    "dispatchers": Part("N dispatchers, MPS and lanes", {"parts.dispatchers": 450}),
    "duty": Part("the device's duty cycle", {"parts.duty": 300}),
    "calibrate": Part("profiles of modelled devices, measured", {"parts.calibrate": 400}),
}


def chosen(named: list[str], *, brief: bool = False) -> dict[str, float]:
    """Steps and their limits: of the named parts or steps (``micro.gemm``), in order; of none named all of them.

    ``brief``: measurements get less time; tests do not. ``ValueError`` names what is neither.
    """
    every = {step: limit for part in PARTS.values() for step, limit in part.steps.items()}
    if brief:
        every = {step: limit if step in PARTS["correct"].steps else BRIEF * limit for step, limit in every.items()}
    found: dict[str, float] = {}
    for name in named or PARTS:
        if name in PARTS:
            found |= {step: every[step] for step in PARTS[name].steps}
        elif (step := name if name in every else f"parts.{name}") in every:
            found[step] = every[step]
        else:
            raise ValueError(f"{name!r} is no part of the suite; parts: {', '.join(PARTS)}; steps: {', '.join(every)}")
    return found
