"""The ops of a GPU, their kernels interpreted on the CPU, against the CPU's: whole models in padded steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint, write_sentence_modules
from padded import PaddedEncoder
from test_models import random_items
from test_reference_ops import encoded, one_thread  # noqa: F401

from fastqps.kernels import TRITON_MISSING
from fastqps.models.cpu_encoder_ops import CpuEncoderOps
from fastqps.runners.encoder import EncoderRunner

pytestmark = pytest.mark.skipif(bool(TRITON_MISSING), reason=TRITON_MISSING)
FLOAT32 = torch.float32


# The interpreter takes milliseconds for each program, and a program is a row of a norm.
ITEMS, TOKENS = 3, 24


@pytest.mark.parametrize(
    ("family", "task", "options"),
    [
        ("bert", "mean", {}),
        ("bert", "classify", {"hidden_act": "gelu_new"}),
        ("distilbert", "cls", {"activation": "relu"}),
        ("roberta", "max", {}),
        ("roberta", "classify", {}),
        ("modernbert", "mean", {"local_attention": 8}),
        ("modernbert", "classify", {"local_attention": 8, "mlp_bias": True, "attention_bias": True, "norm_bias": True}),
    ],
)
def test_encoders(tmp_path: Path, family: str, task: str, options: dict[str, Any]) -> None:
    from fastqps.models.cuda_encoder_ops import CudaEncoderOps

    layers = {"n_layers": 2} if family == "distilbert" else {"num_hidden_layers": 2}
    write_checkpoint(tmp_path, family, "classify" if task == "classify" else "embed", **layers, **options)
    if task != "classify":
        write_sentence_modules(tmp_path, task, dense=task == "mean")
    steps = [random_items(np.random.default_rng(0), n, longest=11, pairs=True)[:n] for n in (2, 1)]
    want = encoded(tmp_path, steps, CpuEncoderOps(FLOAT32), EncoderRunner, ITEMS, TOKENS)
    got = encoded(tmp_path, steps, CudaEncoderOps(FLOAT32, "cpu"), PaddedEncoder, ITEMS, TOKENS)
    assert np.abs(got - want).max() <= 1e-5
