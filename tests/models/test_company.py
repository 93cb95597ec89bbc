"""An answer does not depend on what else its step computes: alone it is the same, bit for bit, as in company."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import static_models
import torch
from checkpoints import FAMILIES, FEW_TASKS, TASKS, VOCAB, write_checkpoint
from decoders import DECODERS, write_decoder
from model_runs import random_items, run
from nightly import nightly, nightly_but
from sentence_files import write, write_modules
from sparse_encoders import SPARSE_FAMILIES, write_sparse_encoder

from fastqps import Engine
from fastqps.devices import make_runner
from fastqps.models import load_card
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.matrix import multiplies
from fastqps.ops.rows import HEAD_FUNCTIONS

pytestmark = pytest.mark.compute

HEADS = {96: 4, 384: 6, 576: 9, 768: 12, 1024: 16, 1536: 24}  # by width
BF16 = pytest.mark.skipif(not multiplies(), reason="oneDNN's products choose their order by the rows")
DECODES = {family for family, _ in DECODERS.values()}
POOLING = "sentence_transformers.models.Pooling"
HOW: dict[str, dict[str, Any]] = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "int8": {"dtype": "float32", "quantization": "int8"},
    "int8, bfloat16": {"dtype": "bfloat16", "quantization": "int8"},
    "static": {},
}
LOWER = [pytest.param("bfloat16", marks=BF16), "int8", pytest.param("int8, bfloat16", marks=BF16)]
EACH_HOW = ["float32", *LOWER]
REQUESTS = 10_000
ITEMS = [[7], [5, 6], list(range(3, 20)), [9, 8, 7, 6, 5], [7] * 33, [30]]
DRAWN: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0, "seed": 3},
    {"temperature": 0.7, "seed": 4, "top_p": 0.9},
    {"temperature": 0.7, "seed": 4, "top_k": 8, "repetition_penalty": 1.3},
]


def sizes(family: str, width: int, layers: int = 4) -> dict[str, Any]:
    """Options of a configuration."""
    if family == "distilbert":
        return {"dim": width, "hidden_dim": 2 * width, "n_heads": HEADS[width], "n_layers": layers}
    if family == "t5":
        return {"d_model": width, "d_ff": 2 * width, "num_heads": HEADS[width], "num_layers": layers}
    heads = {"num_attention_heads": HEADS[width], "num_key_value_heads": 2 if width == 96 else 1}
    return {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers, **heads}


def differing(folder: Path, how: str) -> list[int]:
    """The items whose rows are others in company than alone."""
    runner = make_runner("cpu", load_card(str(folder)), len(ITEMS), 64, **HOW[how])
    items = [(ids, [0] * len(ids)) for ids in ITEMS]
    beside = run(runner, items)
    by_token = len(beside) != len(items)
    ends = np.cumsum([len(ids) if by_token else 1 for ids in ITEMS]).tolist()
    rows = [slice(*each) for each in pairwise([0, *ends])]
    return [i for i, item in enumerate(items) if not np.array_equal(run(runner, [item]), beside[rows[i]])]


def write_encoder(folder: Path, family: str, task: str, width: int, layers: int = 4) -> None:
    write_checkpoint(folder, family, task, **sizes(family, width, layers))
    if task == "embed" and DECODES & {family}:
        write_modules(folder, [("sentence_transformers.models.Transformer", ""), (POOLING, "1_Pooling")])
        write(folder / "1_Pooling/config.json", {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True})


def differing_prompts(folder: Path, how: str) -> list[Sequence[int]]:
    engine = Engine(str(folder), **HOW[how], max_input_tokens=40, max_output_tokens=8)
    found = []
    for options in DRAWN:
        asked: dict[str, Any] = {"max_tokens": 6, "ignore_eos": True, "logprobs": True, **options}
        for prompt, beside in zip(ITEMS, engine.generate(ITEMS, **asked), strict=True):
            alone = engine.generate([prompt], **asked)[0]
            if (alone.token_ids, alone.logprobs) != (beside.token_ids, beside.logprobs):
                found.append(prompt)
    engine.close()
    return found


@pytest.mark.parametrize("how", EACH_HOW)
@pytest.mark.parametrize(("family", "task"), nightly_but(FEW_TASKS, TASKS))
def test_encoders(tmp_path: Path, family: str, task: str, how: str) -> None:
    write_encoder(tmp_path, family, task, 96)
    assert differing(tmp_path, how) == []


@pytest.mark.parametrize("how", EACH_HOW)
@pytest.mark.parametrize("width", [384, 576, *nightly(768, 1024, 1536)])
@pytest.mark.parametrize("family", ["bert", *nightly(*(each for each in FAMILIES if each != "bert"))])
def test_widths(tmp_path: Path, family: str, width: int, how: str) -> None:
    write_encoder(tmp_path, family, "embed", width, 3)
    assert differing(tmp_path, how) == []


@pytest.mark.parametrize("how", EACH_HOW)
@pytest.mark.parametrize("family", ["bert", *nightly(*(each for each in SPARSE_FAMILIES if each != "bert"))])
def test_sparse_encoders(tmp_path: Path, family: str, how: str) -> None:
    write_sparse_encoder(tmp_path, family, "log1p_relu", **sizes(family, 96))
    assert differing(tmp_path, how) == []


@pytest.mark.parametrize("how", EACH_HOW)
@pytest.mark.parametrize("width", [96, 576, *nightly(384, 768, 1024, 1536)])
@pytest.mark.parametrize("kind", ["llama", *nightly(*sorted(DECODES - {"llama"}))])
def test_decoders(tmp_path: Path, kind: str, width: int, how: str) -> None:
    write_decoder(tmp_path, kind, spread=0.05, **sizes(kind, width, 3))
    assert differing_prompts(tmp_path, how) == []


@pytest.mark.parametrize("how", EACH_HOW)
@pytest.mark.parametrize("width", [96, 576])
@pytest.mark.parametrize("kind", ["llama", *nightly(*sorted(DECODES - {"llama"}))])
def test_prompts_that_are_copied(tmp_path: Path, kind: str, width: int, how: str) -> None:
    """The choices of a request, whose prompt is computed once, are those of a request for each of them."""
    write_decoder(tmp_path, kind, spread=0.05, **sizes(kind, width, 3))
    engine = Engine(str(tmp_path), **HOW[how], max_input_tokens=64, max_output_tokens=8)
    rng = np.random.default_rng(0)
    for length in (16, 17, 31, 50, 64):
        prompt = rng.integers(1, 96, length).tolist()
        asked: dict[str, Any] = {"max_tokens": 6, "ignore_eos": True, "logprobs": True, "temperature": 1.0}
        first = engine.generate([prompt], n=8, seed=4, **asked)[0]
        for place, choice in enumerate([first, *first.other_choices]):
            alone = engine.generate([prompt], seed=4 + place, **asked)[0]
            assert (choice.token_ids, choice.logprobs) == (alone.token_ids, alone.logprobs), (length, place)
    engine.close()


def companies(rng: np.random.Generator) -> list[list[int]]:
    """The numbers of all ``REQUESTS`` in an order of its own, in parts of up to 64."""
    order, parts = rng.permutation(REQUESTS).tolist(), []
    while order:
        n = int(rng.integers(1, 65))
        parts.append(order[:n])
        order = order[n:]
    return parts


@pytest.mark.nightly
@pytest.mark.parametrize("how", LOWER)
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_thousand_requests_of_an_encoder(tmp_path: Path, family: str, how: str) -> None:
    write_encoder(tmp_path, family, "embed", 96, 2)
    runner, rng = make_runner("cpu", load_card(str(tmp_path)), 64, 64 * 12, **HOW[how]), np.random.default_rng(0)
    items = random_items(rng, REQUESTS, 12)
    alone = np.concatenate([run(runner, [item]) for item in items])
    for _ in range(2):  # a request that runs again does so in other company
        for part in companies(rng):
            assert np.array_equal(run(runner, [items[i] for i in part]), alone[part])


@pytest.mark.nightly
@pytest.mark.parametrize("how", LOWER)
@pytest.mark.parametrize("kind", sorted(DECODES))
def test_ten_thousand_requests_of_a_decoder(tmp_path: Path, kind: str, how: str) -> None:
    write_decoder(tmp_path, kind, spread=0.05, vocab_size=VOCAB, **sizes(kind, 96, 2))
    engine, rng = Engine(str(tmp_path), **HOW[how], max_input_tokens=12, max_output_tokens=4), np.random.default_rng(0)
    prompts = [ids for ids, _ in random_items(rng, REQUESTS, 12)]

    def answers(part: Sequence[int]) -> list[Any]:
        asked: dict[str, Any] = {"max_tokens": 4, "ignore_eos": True, "logprobs": True, "temperature": 0.7, "seed": 4}
        return [(each.token_ids, each.logprobs) for each in engine.generate([prompts[i] for i in part], **asked)]

    alone = [answers([i])[0] for i in range(REQUESTS)]
    for _ in range(2):
        for part in companies(rng):
            assert answers(part) == [alone[i] for i in part]
    engine.close()


@pytest.mark.parametrize("activation", HEAD_FUNCTIONS)
@pytest.mark.parametrize("inputs", HEADS)
def test_heads(inputs: int, activation: str) -> None:
    for outputs in (1, 3, 30, 100, inputs):
        weight, bias, x = torch.randn(outputs, inputs), torch.randn(outputs), torch.randn(40, inputs)
        head = CpuEncoderOps(torch.float32).projection(weight * inputs**-0.5, bias, activation)
        beside = head(x)
        torch.testing.assert_close(
            beside, HEAD_FUNCTIONS[activation](torch.nn.functional.linear(x, weight * inputs**-0.5, bias))
        )
        for n in (1, 2, 3, 9, 17):
            for first in (0, 5, 40 - n):
                assert torch.equal(head(x[first : first + n].clone()), beside[first : first + n]), (outputs, n, first)


@pytest.mark.parametrize("kind", ["", "Tanh", "GELU", "Sigmoid", "classifier"])
def test_static_models(tmp_path: Path, kind: str) -> None:
    if kind == "classifier":
        static_models.classifier(tmp_path, "softmax", (16, 100))
    else:
        static_models.sentence_transformers(tmp_path, dense=kind)
    assert differing(tmp_path, "static") == []
