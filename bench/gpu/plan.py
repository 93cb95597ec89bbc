"""The two timed passes of the suite, the steps that they and single calls run, how long each step may take, and the
targets: rows of the results table, also while nothing has been measured."""

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
    steps: dict[str, tuple[str, ...]] = {}
    for name in named or PASSES:
        if name in PASSES:
            steps[name] = PASSES[name].steps
        elif name in STEPS:
            steps[""] = (*steps.get("", ()), name)
        else:
            raise ValueError(f"no pass or step {name!r}; passes: {', '.join(PASSES)}; steps: {', '.join(STEPS)}")
    return steps


H200 = "H200"
_ONE = "N dispatchers over a tuned one, equal concurrency"


@dataclass(frozen=True)
class Target:
    """``accept`` has to be reached and ``goal`` is hoped for, in ``unit``; None: the figure is reported.

    ``only``: both are asked of GPUs with this in their name. On others the figure is reported.
    """

    name: str
    unit: str
    step: str  # of the suite, which measures it
    accept: float | None
    goal: float | None
    only: str = ""
    at_most: bool = False  # smaller is better

    def marks(self, gpu: str) -> tuple[float | None, float | None]:
        """``accept`` and ``goal`` for a GPU of this name; "": nobody's."""
        return (self.accept, self.goal) if not gpu or self.only in gpu else (None, None)


TARGETS = {
    "encoder": Target("MiniLM-L6, 32 tokens, in-process", "sequences/s", "encoder", 350e3, 700e3, H200),
    "encoder-step": Target(
        "MiniLM-L6, a step of 16,384 tokens", "µs", "profile:minilm-l6", 1030, 900, H200, at_most=True
    ),
    "encoder-grpc": Target("MiniLM-L6, 32 tokens, gRPC unary, p99 < 20 ms", "/s", "encoder", 200e3, 600e3, H200),
    "transport": Target("null device, gRPC unary: the transport ceiling", "/s", "encoder", 1.2e6, 2e6),
    "decoder-135m": Target("135M Llama shape, 50 in / 50 out", "requests/s", "decoder:smollm2-135m", 9.4e3, 11e3, H200),
    "running": Target("135M Llama shape, best over 2 lanes × 512 sequences", "×", "decoder:smollm2-135m", 1.15, None),
    "start": Target(
        "135M Llama shape, from the start of a server until it serves", "s", "decoder:smollm2-135m", 6, 4, at_most=True
    ),
    "decoder-0.5b": Target(
        "Qwen2.5-0.5B shape, 50 in / 50 out, p99 < 1 s", "requests/s", "decoder:qwen2.5-0.5b", 2.5e3, 5e3, H200
    ),
    "fp8-0.5b": Target("FP8 over bf16, Qwen2.5-0.5B shape, p99 < 1 s", "×", "decoder:qwen2.5-0.5b", 1.15, None),
    "peer": Target("over transformers' asynchronous continuous batching", "×", "decoder_peers", 5, 10),
    "duty": Target("device duty cycle under saturation", "%", "decoder:qwen2.5-0.5b", 99, 99.9),
    "fp8": Target("FP8 over bf16, Llama-1B shape", "×", "decoder:llama-1b", 1.2, 1.3),
    "dispatchers": Target(f"{_ONE}: 135M", "×", "dispatchers:smollm2-135m", None, 1.2),
    "dispatchers-encoder": Target(f"{_ONE}: MiniLM-L6", "×", "dispatchers:minilm-l6", None, 1.2),
}
