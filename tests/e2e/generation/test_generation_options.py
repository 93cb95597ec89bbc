"""A server honours options that change logits, the checkpoint's and requests': the tokens of transformers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tr
from generators import EOS, VOCAB, write_generator
from serving import Server

import fastqps
from fastqps.api.prediction import Usage

OPTIONS = {
    "repetition_penalty": 1.2,
    "no_repeat_ngram_size": 3,
    "min_new_tokens": 10,
    "suppress_tokens": [7, 8, 9],
    "bad_words_ids": [[i, j] for i in range(VOCAB) for j in range(i % 31, VOCAB, 31)],
    "forced_eos_token_id": EOS,
}


# Of requests, by their number; most have none.
ASKED: list[dict[str, Any]] = [
    {},
    {},
    {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0},
    {"min_tokens": 0},
    {"min_tokens": 20, "repetition_penalty": 1.5},
    {"suppress_token_ids": [20, 21, 22], "no_repeat_ngram_size": 1},
]


def expected(model: Any, ids: list[int], asked: dict[str, Any]) -> list[int]:
    named = {"min_tokens": "min_new_tokens", "suppress_token_ids": "suppress_tokens"}
    options = {named.get(key, key): value for key, value in asked.items()}
    if "suppress_tokens" in options:
        options["suppress_tokens"] = [*options["suppress_tokens"], *(model.generation_config.suppress_tokens or [])]
    row = torch.tensor([ids])
    with torch.inference_mode():
        made = model.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=24, **options)
    found: list[int] = made[0, len(ids) :].tolist()
    return found


@pytest.mark.parametrize(
    "checkpoint_options", [pytest.param({}, marks=pytest.mark.nightly), OPTIONS], ids=["plain", "options"]
)
def test_a_server_gives_the_tokens_of_transformers(
    serve: Callable[..., Server], tmp_path: Path, checkpoint_options: dict[str, Any]
) -> None:
    """In changing company, of requests with options and without, over two lanes."""
    checkpoint = write_generator(tmp_path / "tiny")
    (checkpoint / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS, **checkpoint_options}))
    rng = random.Random(0)
    prompts = [[rng.randrange(2, VOCAB) for _ in range(rng.randint(1, 40))] for _ in range(24)]
    asked = [ASKED[i % len(ASKED)] for i in range(len(prompts))]
    model = tr.AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").float().eval()
    want = [expected(model, ids, options) for ids, options in zip(prompts, asked, strict=True)]
    flags = ("--device=cpu", "--dtype=float32", "--max-output-tokens=64", "--max-running=4", "--lanes=2")
    server = serve(*flags, f"--model={checkpoint}", "--dispatchers=2")
    with fastqps.Client(server.address) as client, ThreadPoolExecutor(12) as pool:

        def generate(ids: list[int], options: dict[str, Any]) -> list[int]:
            return client.generate(ids, max_tokens=24, **options).token_ids

        assert list(pool.map(generate, prompts, asked)) == want


def test_choices_are_those_of_requests_by_themselves(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Bit for bit, alone and side by side: their prompt is computed once."""
    rng = random.Random(1)
    prompts = [[rng.randrange(2, VOCAB) for _ in range(n)] for n in (50, 3, 8, 20, 50, 64)]
    flags = ("--device=cpu", "--dtype=float32", "--max-input-tokens=64", "--max-output-tokens=16", "--max-running=16")
    server = serve(*flags, f"--model={write_generator(tmp_path / 'tiny')}", "--lanes=2")
    drawn: dict[str, Any] = {"temperature": 1.5, "max_tokens": 12, "repetition_penalty": 1.2, "logprobs": True}
    with fastqps.Client(server.address) as client, ThreadPoolExecutor(12) as pool:

        def generate(ids: list[int], seed: int, n: int = 1) -> list[tuple[list[int], list[float] | None]]:
            first = client.generate(ids, seed=seed, n=n, **drawn)
            return [(each.token_ids, each.logprobs) for each in (first, *first.other_choices)]

        alone = [[generate(ids, seed)[0] for seed in range(5, 13)] for ids in prompts]
        assert [generate(ids, 5, n=8) for ids in prompts] == alone
        choices = [pool.submit(generate, ids, 5, 8) for ids in prompts * 3]
        single = [pool.submit(generate, ids, 6) for ids in prompts * 3]
        assert [each.result() for each in choices] == alone * 3
        assert [each.result() for each in single] == [[choices[1]] for choices in alone] * 3
        usage = client.generate(prompts[0], seed=5, n=8, **drawn).usage
        assert usage == Usage(50, sum(len(ids) for ids, _ in alone[0]), False)
