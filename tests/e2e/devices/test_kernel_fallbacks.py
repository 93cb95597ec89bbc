"""A server whose GPU does not run some kernels, or runs them wrong: it serves the CPU's answers and warns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import VOCAB, write_checkpoint
from decoders import VOCAB as DECODER_VOCAB
from decoders import write_decoder
from fake_cuda import environment
from nightly import nightly
from serving import PATIENCE_S, Server

import fastqps
from fastqps.devices.cuda.fake import FAULTS

LIMITS = ("--max-batch-tokens=128", "--max-input-tokens=40", "--max-batch-items=8", "--mps=off")
ITEMS = [[(11 * i + 5 * j) % VOCAB for j in range(n)] for i, n in enumerate((2, 7, 16, 33, 40))]
PROMPTS = [[(7 * i + 3 * j) % DECODER_VOCAB for j in range(n)] for i, n in enumerate((1, 5, 9, 20))]


def check_fallbacks(server: Server, faults: dict[str, str]) -> None:
    """One warning for each kernel, with its shape and GPU, and one in the metric; none of others."""
    warnings = [line for line in server.lines if "is replaced by torch" in line]
    for kernel, reason in faults.items():
        (line,) = [line for line in warnings if f"kernel {kernel} " in line]
        assert "on fake GPU, for " in line and "=float32[" in line and reason in line
    assert len(warnings) == len(faults), server.log()
    metrics = server.metrics()
    counts = {name: value for name, value in metrics.items() if name.startswith("fastqps_kernel_fallbacks_total{")}
    shown = {kernel: counts[f"fastqps_kernel_fallbacks_total{{{kernel}}}"] for kernel in faults}
    assert shown == dict.fromkeys(faults, 1) and sum(counts.values()) == len(faults) and len(counts) == 14


def test_an_encoder(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A kernel that computes something else, one that does not compile, one that ends its process; two dispatchers."""
    write_checkpoint(tmp_path, "bert", num_hidden_layers=2)
    env = {**environment(), FAULTS: "add_norm=miscompute,pool=compile,tile_attention=crash"}
    flags = ("--device=cuda:0", "--dtype=float32", "--dispatchers=2", f"--model={tmp_path}", *LIMITS)
    server = serve(*flags, env=env)
    expected = fastqps.Engine(str(tmp_path), "cpu", "float32").predict(ITEMS)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        for ids, wanted in zip(ITEMS, expected, strict=True):
            np.testing.assert_allclose(client.predict(ids).embedding, wanted, rtol=0, atol=2e-5)
    reasons = {
        "add_norm": "largest error",
        "pool": "it does not run: RuntimeError: PassManager::run failed",
        "tile_attention": "the check ended its process",
    }
    check_fallbacks(server, reasons)
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 1, server.log()


def test_a_decoder(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Two kernels that end their process, one behind the other: a restart for each, and then the server serves."""
    write_decoder(tmp_path, "qwen3")
    env = {**environment(), FAULTS: "embed_tokens=crash,sample=crash,rope_kv=miscompute"}
    flags = ("--device=cuda:0", "--dtype=float32", "--dispatchers=1", "--lanes=1", f"--model={tmp_path}", *LIMITS)
    server = serve(*flags, "--max-output-tokens=8", "--max-running=4", env=env)
    engine: Any = fastqps.Engine(str(tmp_path), "cpu", "float32", 40, max_output_tokens=8)
    expected = [made.token_ids for made in engine.generate(PROMPTS)]
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        assert [client.generate(prompt).token_ids for prompt in PROMPTS] == expected
    ended = "the check ended its process"
    check_fallbacks(server, {"rope_kv": "largest error", "embed_tokens": ended, "sample": ended})
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 2, server.log()


@pytest.mark.parametrize(("kernels", "same"), [("own", False), *nightly(("torch", True))])
def test_kernels_that_were_chosen(serve: Callable[..., Server], tmp_path: Path, kernels: str, same: bool) -> None:
    """Nothing is checked: own kernels are served as they are, and torch's operations without a warning."""
    write_checkpoint(tmp_path, "bert", num_hidden_layers=2)
    flags = ("--device=cuda:0", "--dtype=float32", f"--kernels={kernels}", f"--model={tmp_path}", *LIMITS)
    server = serve(*flags, env={**environment(), FAULTS: "add_norm=miscompute"})
    expected = fastqps.Engine(str(tmp_path), "cpu", "float32").predict(ITEMS)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        rows = [client.predict(ids).embedding for ids in ITEMS]
    assert np.allclose(rows, np.stack(expected), rtol=0, atol=2e-5) == same
    check_fallbacks(server, {})
