"""Whole models on another device than the CPU answer what the CPU does: on a fake GPU, and on a true one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import static_models
from checkpoints import FEW_TASKS, TASKS, write_checkpoint, write_sentence_modules
from decoders import VOCAB, write_decoder
from schemas import SAMPLED, STRUCTURES
from sparse_encoders import dense_rows, write_splade

from fastqps.api.request import GenerateOptions
from fastqps.devices import make_runner
from fastqps.engine.generator import Generator
from fastqps.engine.text_answer import Token
from fastqps.models import load_card
from fastqps.runners.pack_items import pack_items

CHANCE = np.random.default_rng(7)
Batch = list[tuple[list[int], int]]  # ids, and how many belong to the first text of a pair


def items(count: int, vocab: int, longest: int) -> list[list[int]]:
    return [CHANCE.integers(0, vocab, CHANCE.integers(1, longest + 1)).tolist() for _ in range(count)]


def pairs(found: list[list[int]]) -> Batch:
    return [(ids, int(CHANCE.integers(1, len(ids) + 1))) for ids in found]


def rows(runner: Any, batch: Batch) -> np.ndarray:
    """One of each item, or of each of its tokens where the task is theirs."""
    shape = pack_items(runner.card, batch, runner.buffers())
    runner.run(*shape)
    found = runner.buffers().rows(*shape[:2])
    return dense_rows(runner.card, found) if runner.card.task == "embed_sparse" else found.copy()


def write_task(path: Path, family: str, task: str) -> None:
    write_checkpoint(path, family, task)
    if task == "embed":
        write_sentence_modules(path, pooling=["mean", "cls", "max", "lasttoken"][len(family) % 4], dense=True)
    if task == "embed_sparse":
        write_splade(path)


STATIC: dict[str, Callable[[Path], Any]] = {
    "float32": static_models.model2vec,
    "float16 weighted": lambda path: static_models.model2vec(path, 100, np.float16, weighted=True),
    "int8 mapped": lambda path: static_models.model2vec(path, 100, np.int8, weighted=True, mapped=True),
    "dense": lambda path: static_models.sentence_transformers(path, dense="GELU"),
    "classifier": static_models.classifier,
}
_SPARSE = (("bert", "embed_sparse"), ("modernbert", "embed_sparse"))
MODELS = {
    **{f"{family} {task}": partial(write_task, family=family, task=task) for family, task in (*TASKS, *_SPARSE)},
    **{f"static {name}": write for name, write in STATIC.items()},
}
FEW_MODELS = [*(f"{family} {task}" for family, task in (*FEW_TASKS, *_SPARSE)), *(f"static {name}" for name in STATIC)]


def check_model(path: Path, name: str, close: float) -> None:
    """In fp32, in batches of every size up to the largest, and alone as batched."""
    MODELS[name](path)
    card = load_card(str(path), 60)
    options: dict[str, Any] = {} if card.static else {"dtype": "float32"}
    cpu, gpu = (make_runner(device, card, 16, 300, **options) for device in ("cpu", "cuda"))
    for count in (1, 2, 7, 16):
        batch = pairs(items(count, card.vocab_size, min(60, 300 // count)))
        if card.static:
            batch[0] = ([card.empty_id], 1)  # a text without tokens
        together = rows(gpu, batch)
        np.testing.assert_allclose(together, rows(cpu, batch), rtol=0, atol=close)
    alone = np.concatenate([rows(gpu, [item]) for item in batch])
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-5)


def check_decoder(path: Path, kind: str, prefix: int, close: float, in_flight: Sequence[int] = (2, 1)) -> None:
    """Token by token in fp32, greedy and drawn, whatever shares the steps, and with so many steps in flight.

    ``close``: how much a log-probability may differ.
    """
    write_decoder(path, kind, eos_token_id=5)
    card = replace(load_card(str(path), 40, max_output_tokens=24), prefix_ids=tuple(range(3, 3 + prefix)))
    prompts = items(9, VOCAB, 20)
    drawn = GenerateOptions(temperature=0.8, top_k=20, top_p=0.9, seed=11, top_logprobs=20)
    from_all = GenerateOptions(temperature=1.3, seed=12, logprobs=True)
    answers = []
    for device, steps in (("cpu", 2), *(("cuda", count) for count in in_flight)):
        generator = Generator(
            card, device=device, dtype="float32", max_running=4, max_step_tokens=64, steps_in_flight=steps
        )
        found = [generator.generate(prompts, **sampling) for sampling in (GenerateOptions(), drawn, from_all)]
        (first,) = generator.generate([[*range(6, 42)]], n=4, **from_all)  # whose prompt is computed once
        found.append([first, *first.other_choices])
        answers.append([[(made.token_ids, made.finish_reason) for made in each] for each in found])
        likeliest = [p for made in found[1] for each in made.top_logprobs or () for _, p in each]
        logprobs = np.concatenate([likeliest, *[made.logprobs for made in found[1]]])
        if device == "cpu":
            expected = logprobs
        np.testing.assert_allclose(logprobs, expected, rtol=0, atol=close)
        assert generator.generate(prompts[3:4], **drawn)[0].token_ids == found[1][3].token_ids
        generator.close()
    assert all(each == answers[0] for each in answers)


STRUCTURED: list[dict[str, Any]] = [
    *STRUCTURES.values(),
    *({**each, **SAMPLED} for each in STRUCTURES.values()),
    {"regex": "ab", "min_tokens": 9},
    {"regex": "ab", "ignore_eos": True},
    {"regex": "a{2,30}", "repetition_penalty": 1.4, "logit_bias": {80: 3.0}, "logprobs": True},
    {"json_object": True, "max_tokens": 5, "stop_token_ids": [7]},
]
"""Options of requests, most with a structure."""


def check_structures(path: Path, asked: list[dict[str, Any]], close: float, **how: int) -> list[list[Token]]:
    """The tokens of requests with these options, which run in company, equal the CPU's in fp32. Returns them.

    In the company is one that chooses among texts.

    ``how``: arguments of ``Generator``. ``close``: how much a log-probability may differ.
    """
    card, answers, scores = load_card(str(path), 32, max_output_tokens=48), [], []
    prompts = [[5, 17, 200, 31], [9], [40, 41, 42]]
    for device in ("cpu", "cuda"):
        generator = Generator(card, device=device, dtype="float32", **{"max_running": 6, **how})
        made: dict[int, list[Token]] = {
            generator.add(prompts[i % len(prompts)], **options): [] for i, options in enumerate(asked)
        }
        (chosen,) = generator.generate(prompts[:1], choices=["a cat", "a cats", "no"])
        while generator.busy:
            for token in generator.step():
                made[token.request].append(token)
        generator.close()
        answers.append(list(made.values()))
        scores.append([each.logprob for each in chosen.choice_scores or ()])
    np.testing.assert_allclose(*scores, rtol=0, atol=close)
    for found, expected in zip(*answers, strict=True):
        assert [(token.id, token.finish) for token in found] == [(token.id, token.finish) for token in expected]
        for one, other in zip(found, expected, strict=True):
            assert [id for id, _ in one.likeliest] == [id for id, _ in other.likeliest]
            logprobs = ([each.logprob, *(p for _, p in each.likeliest)] for each in (one, other))
            np.testing.assert_allclose(*logprobs, rtol=0, atol=close)
    return answers[1]
