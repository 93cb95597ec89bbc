"""The targets on a GPU: rows of the results table, also while nothing has been measured."""

from __future__ import annotations

from dataclasses import dataclass

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
