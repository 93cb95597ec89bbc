"""The ops of a GPU in FP8, their kernels interpreted on the CPU, against those of the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from compressed import compress
from decoders import write_decoder
from model_runs import encoded, random_items
from nightly import nightly
from padded import PaddedDecoder, PaddedEncoder

from fastqps.engine.generator import Generator
from fastqps.kernels import TRITON_MISSING
from fastqps.models import load_card
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.precision import Precision
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner

pytestmark = [
    pytest.mark.compute,
    pytest.mark.skipif(bool(TRITON_MISSING), reason=TRITON_MISSING),
    pytest.mark.usefixtures("one_thread", "round_as_a_gpu_does"),
]
FLOAT32 = torch.float32
ITEMS, TOKENS = 2, 16  # the interpreter takes milliseconds for each row


def precision(lines: list[str]) -> Precision:
    return Precision("fp8", log=lines.append)


@pytest.mark.parametrize("held", [False, True], ids=["quantised-here", "quantised-before"])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_encoders(tmp_path: Path, family: str, held: bool) -> None:
    from fastqps.ops.cuda.encoder_ops import CudaEncoderOps

    options: dict[str, Any] = {"local_attention": 8} if family == "modernbert" else {}
    write_checkpoint(tmp_path, family, num_hidden_layers=1 if held else 3, **options)
    if held:
        compress(tmp_path, r"(encoder\.layer|layers)\.\d+\..*(query|key|value|dense|Wqkv|Wo|Wi)\.weight")
    steps = [random_items(np.random.default_rng(0), 2, longest=8, pairs=True)]
    lines: list[str] = []
    want = encoded(tmp_path, steps, CpuEncoderOps(FLOAT32, precision(lines)), EncoderRunner, ITEMS, TOKENS)
    got = encoded(tmp_path, steps, CudaEncoderOps(FLOAT32, "cpu", precision(lines)), PaddedEncoder, ITEMS, TOKENS)
    plain = encoded(tmp_path, steps, CpuEncoderOps(FLOAT32), EncoderRunner, ITEMS, TOKENS)
    assert np.linalg.norm(want - plain) > 0.01 * np.linalg.norm(plain), "this was not FP8"
    # On a GPU the bias of an FP8 product is bf16; and where one number is rounded to the other side, others follow.
    assert np.linalg.norm(got - want) < 0.004 * np.linalg.norm(want)


@pytest.mark.parametrize("kind", ["qwen3", *nightly("llama-gqa-tied", "qwen2")])
def test_decoders(tmp_path: Path, kind: str) -> None:
    """By the log-probabilities of what each generates, as far as both generate the same."""
    from fastqps.ops.cuda.decode_ops import CudaDecodeOps

    write_decoder(tmp_path, kind, num_hidden_layers=3)
    card = load_card(str(tmp_path), 8, max_output_tokens=3)
    lines: list[str] = []
    found = []
    made: list[tuple[Any, type[DecoderRunner]]] = [
        (CpuDecodeOps(FLOAT32, precision(lines)), DecoderRunner),
        (CudaDecodeOps(FLOAT32, "cpu", precision(lines)), PaddedDecoder),
        (CpuDecodeOps(FLOAT32), DecoderRunner),
    ]
    for ops, make in made:
        runner = make.load(card, ops, 2, 10)
        answers = Generator(card, runner=runner).generate([[1, 2, 3], [7]], logprobs=True)
        found.append(np.array([answer.logprobs[0] for answer in answers if answer.logprobs]))
    want, got, plain = found
    assert np.abs(want - plain).max() > 0.001, "this was not FP8"
    assert np.abs(got - want).max() < 0.2 * np.abs(want - plain).max()
