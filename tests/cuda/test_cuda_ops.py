"""The ops of a GPU, their kernels interpreted on the CPU, against the CPU's: whole models in padded steps."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import VOCAB, write_decoder
from model_runs import encoded, random_items
from nightly import nightly
from padded import PaddedDecoder, PaddedEncoder

from fastqps.api.request import GenerateOptions
from fastqps.engine.generator import Generator
from fastqps.kernels import TRITON_MISSING
from fastqps.models import load_card
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cuda.operations import own_operations
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner

pytestmark = [
    pytest.mark.compute,
    pytest.mark.skipif(bool(TRITON_MISSING), reason=TRITON_MISSING),
    pytest.mark.usefixtures("one_thread"),
]
FLOAT32 = torch.float32


# The interpreter takes milliseconds for each program, and a program is a row of a norm.
ITEMS, TOKENS = 3, 24


@pytest.mark.parametrize(
    ("family", "task", "options"),
    [
        ("bert", "classify", {"hidden_act": "gelu_new"}),
        ("deberta-v2", "cls", {}),
        ("t5", "mean", {}),
        ("modernbert", "mean", {"local_attention": 8}),
        *nightly(
            ("bert", "mean", {}),
            ("distilbert", "cls", {"activation": "relu"}),
            ("roberta", "max", {}),
            ("roberta", "classify", {}),
            (
                "modernbert",
                "classify",
                {"local_attention": 8, "mlp_bias": True, "attention_bias": True, "norm_bias": True},
            ),
        ),
    ],
)
def test_encoders(tmp_path: Path, family: str, task: str, options: dict[str, Any]) -> None:
    from fastqps.ops.cuda.encoder_ops import CudaEncoderOps

    layers = {{"distilbert": "n_layers", "t5": "num_layers"}.get(family, "num_hidden_layers"): 2}
    write_checkpoint(tmp_path, family, "classify" if task == "classify" else "embed", **layers, **options)
    if task != "classify":
        write_sentence_modules(tmp_path, task, dense=task == "mean")
    steps = [random_items(np.random.default_rng(0), n, longest=11, pairs=True)[:n] for n in (2, 1)]
    want = encoded(tmp_path, steps, CpuEncoderOps(FLOAT32), EncoderRunner, ITEMS, TOKENS)
    got = encoded(tmp_path, steps, CudaEncoderOps(FLOAT32, "cpu"), PaddedEncoder, ITEMS, TOKENS)
    assert np.abs(got - want).max() <= 1e-5


@pytest.mark.parametrize("kind", ["qwen2-mqa-tied", *nightly("llama-biased", "qwen3")])
def test_decoders(tmp_path: Path, kind: str) -> None:
    """Prompts and decode rows in each other's company, carried-over tokens, a prefix, draws."""
    from fastqps.ops.cuda.decode_ops import CudaDecodeOps

    write_decoder(tmp_path, kind)
    rng = random.Random(kind)
    card = load_card(str(tmp_path), 5, max_output_tokens=3)
    card = replace(card, prefix_ids=(5, 6, 7) if kind != "llama-biased" else (), eos_ids=(3, 4))
    prompts = [[rng.randrange(VOCAB) for _ in range(n)] for n in (5, 1, 2)]
    samplings = [
        GenerateOptions(top_logprobs=20),
        GenerateOptions(temperature=1.0, seed=7, ignore_eos=True, top_logprobs=3),
        GenerateOptions(temperature=0.8, top_k=5, top_p=0.9, seed=8, stop_token_ids=(9,)),
    ]

    def answers(ops: Any, make: type[DecoderRunner]) -> list[Any]:
        generator = Generator(card, runner=make.load(card, ops, 2, 7), steps_in_flight=2)
        for prompt, sampling in zip(prompts, samplings, strict=True):
            generator.add(prompt, **sampling)
        found = []
        while generator.busy:
            found += generator.step()
        return found

    want = answers(CpuDecodeOps(FLOAT32), DecoderRunner)
    got = answers(CudaDecodeOps(FLOAT32, "cpu"), PaddedDecoder)
    assert [(t.request, t.id, t.finish) for t in got] == [(t.request, t.id, t.finish) for t in want]
    assert [t.logprob for t in got] == pytest.approx([t.logprob for t in want], abs=2e-5)
    top, wanted = ([likely for t in tokens for likely in t.likeliest] for tokens in (got, want))
    assert [p for _, p in top] == pytest.approx([p for _, p in wanted], abs=2e-5) and len(top) == 3 * 20 + 3 * 3


@pytest.mark.parametrize(("activation", "fused"), [("gelu", True), ("gelu_new", True), ("relu", False)])
def test_gelu_is_written_by_the_product_in_16_bits(
    activation: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastqps.ops.cuda.products import CudaActivated, CudaLinear
    from fastqps.ops.interface import Rows

    kernels = own_operations()
    linear = CudaLinear(torch.randn(48, 32).half(), torch.randn(48).half())
    assert not linear.fuses_gelu  # this is no GPU
    x, plain = Rows(torch.randn(5, 32).half()), CudaLinear(torch.randn(8, 48).half(), None)
    apart = CudaActivated(linear, activation, kernels, gated=False)(x, plain).tensor
    monkeypatch.setattr(CudaLinear, "fuses_gelu", True)
    monkeypatch.setattr(kernels, "activate", lambda *_, **__: pytest.fail("a kernel of its own"))
    if fused:  # torch's on the CPU is the exact gelu; that on a GPU is the tanh's
        together = CudaActivated(linear, activation, kernels, gated=False)(x, plain).tensor
        torch.testing.assert_close(together, torch.nn.functional.gelu(linear(x)), atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(together, apart, atol=1e-2, rtol=1e-2)
    else:
        with pytest.raises(pytest.fail.Exception):
            CudaActivated(linear, activation, kernels, gated=False)(x, plain)


def test_an_encoder_in_float16(tmp_path: Path) -> None:
    from fastqps.ops.cuda.encoder_ops import CudaEncoderOps

    write_checkpoint(tmp_path, "modernbert", num_hidden_layers=2)
    steps = [random_items(np.random.default_rng(0), 2, longest=11)]
    want = encoded(tmp_path, steps, CpuEncoderOps(FLOAT32), EncoderRunner, ITEMS, TOKENS)
    got = encoded(tmp_path, steps, CudaEncoderOps(torch.float16, "cpu"), PaddedEncoder, ITEMS, TOKENS)
    assert np.abs(got - want).max() <= 4e-3, "numbers of about 3, in 11 bits"
