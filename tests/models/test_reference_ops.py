"""``ReferenceOps`` against the CPU's: whole models of every family, steps of a fixed size with garbage behind them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import CLASSIFIERS, FAMILIES, write_checkpoint, write_sentence_modules
from decoders import DECODERS, VOCAB, write_decoder
from generators import random_sampling
from model_runs import encoded, random_items
from nightly import nightly_but
from padded import PaddedDecoder, PaddedEncoder
from reference_ops.decode_ops import ReferenceDecodeOps
from reference_ops.encoder_ops import ReferenceEncoderOps
from sparse_encoders import dense_rows, write_splade

from fastqps.architectures import vocabulary_head
from fastqps.engine.generator import Generator
from fastqps.kernels.torch_ops.sample import uniform
from fastqps.models import load_card
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner

pytestmark = [pytest.mark.compute, pytest.mark.usefixtures("one_thread")]

FLOAT32 = torch.float32
MAX_ITEMS, MAX_TOKENS = 12, 400


POOLINGS = ("mean", "max", "cls", "lasttoken")
TASKS = [
    *((family, task) for family in FAMILIES for task in POOLINGS),
    *((family, "classify") for family in CLASSIFIERS),
]
# Every family once, and every task with several.
FEW_TASKS = [(family, (*POOLINGS, "classify")[i % 5]) for i, family in enumerate(CLASSIFIERS)] + [("t5", "mean")]


@pytest.mark.parametrize(("family", "task"), nightly_but(FEW_TASKS, TASKS))
def test_encoders(tmp_path: Path, family: str, task: str) -> None:
    """Steps of many items, of one, and as full as they can be."""
    write_checkpoint(tmp_path, family, "classify" if task == "classify" else "embed")
    if task != "classify":
        write_sentence_modules(tmp_path, task, dense=task == "mean")
    rng = np.random.default_rng(0)
    items = random_items(rng, MAX_ITEMS, longest=40, pairs=True)
    steps = [items, items[:1], items[3:7], [items[0]] * 10]
    want = encoded(tmp_path, steps, CpuEncoderOps(FLOAT32), EncoderRunner, MAX_ITEMS, MAX_TOKENS)
    for make in (EncoderRunner, PaddedEncoder):
        got = encoded(tmp_path, steps, ReferenceEncoderOps(FLOAT32), make, MAX_ITEMS, MAX_TOKENS)
        assert np.abs(got - want).max() <= 1e-5


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert"])
def test_sparse_encoders(tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heads of masked language models, in parts of the vocabulary of which the last is narrower."""
    monkeypatch.setattr(vocabulary_head, "_COLUMNS", 48)
    write_checkpoint(tmp_path, family, "embed_sparse")
    write_splade(tmp_path)
    card, items = load_card(str(tmp_path)), random_items(np.random.default_rng(0), MAX_ITEMS, longest=40)
    sizes = MAX_ITEMS, MAX_TOKENS
    want = dense_rows(card, encoded(tmp_path, [items], CpuEncoderOps(FLOAT32), EncoderRunner, *sizes))
    for make in (EncoderRunner, PaddedEncoder):
        got = dense_rows(card, encoded(tmp_path, [items], ReferenceEncoderOps(FLOAT32), make, *sizes))
        assert np.abs(got - want).max() <= 1e-5


BFLOAT16 = [
    pytest.param(
        kind,
        torch.bfloat16,
        marks=pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this CPU has no bf16"),
    )
    for kind in ("qwen3", "qwen2")
]


@pytest.mark.parametrize(("kind", "dtype"), [*((kind, FLOAT32) for kind in DECODERS), *BFLOAT16])
def test_decoders(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    """Prompts and decode rows in each other's company, carried-over tokens, every way of sampling."""
    write_decoder(tmp_path, kind)
    rng = random.Random(kind)
    ids = tuple(rng.randrange(VOCAB) for _ in range(list(DECODERS).index(kind) % 3 * 3))  # a prefix
    card = replace(load_card(str(tmp_path), 24, max_output_tokens=12), prefix_ids=ids, eos_ids=(3, 4))
    requests = [
        ([rng.randrange(VOCAB) for _ in range(rng.randint(1, 24))], replace(random_sampling(rng, VOCAB), logprobs=True))
        for _ in range(8)
    ]

    def tokens(ops: Any, make: type[DecoderRunner]) -> list[Any]:
        runner = make.load(card, ops, 3, 40)
        runner.warm_up()
        generator = Generator(card, runner=runner, steps_in_flight=2)
        return [generator.generate([ids], sampling)[0] for ids, sampling in requests[:2]] + [
            answer for ids, sampling in requests[2:] for answer in generator.generate([ids, ids[:3]], sampling)
        ]

    want = tokens(CpuDecodeOps(dtype), DecoderRunner)
    for make in (DecoderRunner, PaddedDecoder):
        got = tokens(ReferenceDecodeOps(dtype), make)
        if dtype == FLOAT32:
            assert [(a.token_ids, a.finish_reason) for a in got] == [(a.token_ids, a.finish_reason) for a in want]
            for a, b in zip(got, want, strict=True):
                assert a.logprobs == pytest.approx(b.logprobs, abs=2e-5)
        else:
            same = [a.token_ids[:1] == b.token_ids[:1] for a, b in zip(got, want, strict=True)]
            assert sum(same) >= len(same) - 2, "roundings of bfloat16 decide a draw now and then"


def test_uniform_numbers_are_philox() -> None:
    """Known answer of Random123 for counter and key all zero; and the CPU's law is tested by its draws."""
    zero = torch.zeros(1, dtype=torch.int32)
    assert uniform(zero, zero, zero).item() == (0x6627E8D5 >> 8) * 2.0**-24
