"""The two timed passes of the suite, the steps that they and single calls run, and how long each step may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One measurement with a process of its own: ``measure(run)`` of a module under bench.gpu.

    ``limit_s`` includes its start. ``needs``: Python modules without which it is left out.
    """

    what: str
    limit_s: float
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pass:
    """Steps of one call, the most valuable first. ``limit_s`` includes what comes before."""

    what: str
    limit_s: float
    steps: tuple[str, ...]


BEFORE_S = 95.0  # before the steps of a call: a look at the machine, and a build of the extensions unless they load
START_S = {1: 8.0, 2: 12.0}  # about what the start of a server takes, by its dispatchers
STEPS = {
    "decoder:smollm2-135m": Step("135M Llama shape, 50 in / 50 out: lanes, running sequences, FP8", 105),
    "decoder:qwen2.5-0.5b": Step("Qwen2.5-0.5B shape, 50 in / 50 out: FP8 over bf16, rate with p99 < 1 s", 80),
    "profile:minilm-l6": Step("MiniLM at 5,632 and 16,384 tokens, by kernel", 60),
    "dispatchers:smollm2-135m": Step("135M Llama shape: two dispatchers under MPS over one", 80),
    "dispatchers:minilm-l6": Step("MiniLM: two dispatchers under MPS over one", 50),
    "decoder_peers": Step("transformers' asynchronous continuous batching beside ours", 65),
    "correct:quick": Step("kernels at the shapes that matter, an encoder and a decoder against the CPU", 75),
    "correct": Step("all tests that need a GPU", 450),
    "encoder": Step("MiniLM-L6: steps in process, the transport ceiling, then over gRPC", 100),
    "encoder_peers": Step("sentence-transformers beside ours", 60, ("sentence_transformers",)),
    "decoder:llama-1b": Step("Llama-1B shape in FP8 against bf16", 65),
    "profile:smollm2-135m": Step("135M Llama shape at 1,024 rows, by kernel", 90),
    "profile:qwen2.5-0.5b": Step("Qwen2.5-0.5B shape at 1,024 rows, by kernel", 90),
    "profile:llama-1b": Step("Llama-1B shape at 1,024 rows in bf16 and FP8, by kernel", 120),
}
PASSES = {
    "levers": Pass(
        "which settings and which precision raise the rates, and where a step's time goes",
        345,
        ("decoder:smollm2-135m", "decoder:qwen2.5-0.5b", "profile:minilm-l6"),
    ),
    "claims": Pass(
        "do two processes win over one, and by how much do we win over transformers",
        290,
        ("dispatchers:smollm2-135m", "dispatchers:minilm-l6", "decoder_peers"),
    ),
}


def chosen(named: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Steps by pass: of the named passes, and under "" of the named steps; of none named all passes.

    ``ValueError`` names what is neither a pass nor a step.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in named or PASSES:
        if name in PASSES:
            found[name] = PASSES[name].steps
        elif name in STEPS:
            found[""] = (*found.get("", ()), name)
        else:
            raise ValueError(f"no pass or step {name!r}; passes: {', '.join(PASSES)}; steps: {', '.join(STEPS)}")
    return found
