"""What the tests of FP8 and of int8 share: small models with rounded weights, and packaged models before and after."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import VOCAB
from decoders import VOCAB as DECODER_VOCAB

from examples.grammar.evaluate import SEED
from examples.grammar.mistakes import pairs
from fastqps import Client, Engine
from fastqps.api.prediction import Generation
from fastqps.bench.measure.vocabulary import vocabulary_of
from fastqps.models.names import packaged
from fastqps.process.server_process import ServerProcess
from loadgen import texts as made

LAYERS = 4
TEXTS = int(os.environ.get("FASTQPS_ACCURACY_TEXTS", "60"))
SENTENCES = int(os.environ.get("FASTQPS_ACCURACY_SENTENCES", "300"))
PROMPTS = [[(7 * i + 3 * j) % DECODER_VOCAB for j in range(n)] for i, n in enumerate((1, 5, 9, 20))]
ITEMS = [[(11 * i + 5 * j) % VOCAB for j in range(n)] for i, n in enumerate((2, 7, 16, 33))]

Rounding = Callable[[torch.Tensor], torch.Tensor]


def round_inputs(module: torch.nn.Module, rounded: Rounding) -> None:
    """Makes a module of transformers see rounded activations."""
    module.register_forward_pre_hook(lambda module, args: (rounded(args[0]), *args[1:]))


def round_products(layers: Iterable[torch.nn.Module], rounded: Rounding, but: tuple[str, ...] = ()) -> None:
    """Rounds the weight and the activations of each matrix product, except of those whose name ends as in ``but``."""
    for layer in layers:
        for name, module in layer.named_modules():
            if isinstance(module, torch.nn.Linear) and not name.endswith(but):
                module.weight.data = rounded(module.weight.data)
                round_inputs(module, rounded)


def mean_vectors(model: Any) -> np.ndarray[Any, Any]:
    """The vectors that transformers computes for ITEMS, [items, width]: the mean of each item's hidden states."""
    with torch.inference_mode():
        return np.stack([model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy() for ids in ITEMS])


def logprobs_of(model: Any, ids: list[int], tokens: list[int]) -> list[float]:
    """The log-probabilities that transformers gives to ``tokens`` behind the prompt ``ids``."""
    with torch.inference_mode():
        logits = model(torch.tensor([ids + tokens])).logits[0].log_softmax(-1)
    return [float(logits[len(ids) + i - 1, token]) for i, token in enumerate(tokens)]


def deviation(found: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(found - want) / np.linalg.norm(want))


def check_served(quantization: str, logged: str) -> None:
    """Fails unless a server with ``quantization`` generates what this process does, and logs ``logged``."""
    prompts = ["Nora have these axes and your ant feeds us.", "She go home yesterday."]
    lines: list[str] = []
    flags = ("--model", "grammar", "--device", "cpu", "--dispatchers", "1", "--max-running", "4")
    with (
        ServerProcess(*flags, "--quantization", quantization, on_line=lines.append) as server,
        Client(server.address) as client,
    ):
        served = [client.generate(prompt, logprobs=True) for prompt in prompts]
    assert any(line.endswith(f"dispatcher 0 (cpu): {logged}") for line in lines), lines
    here, plain = (Engine("grammar", quantization=q).generate(prompts, logprobs=True) for q in (quantization, "none"))
    assert [found.token_ids for found in served] == [found.token_ids for found in here]
    assert served[0].logprobs == pytest.approx(here[0].logprobs, abs=0.02)
    assert here[0].logprobs != plain[0].logprobs


def check_minilm(quantization: str) -> None:
    """Fails unless the vectors stay close. The bounds are the project's; ``make accuracy`` takes 1,000 texts."""
    folder = packaged("minilm")
    if folder is None:
        pytest.skip("the weights of minilm are not installed")
    texts = list(made.texts(made.parse("uniform:4,60"), TEXTS, random.Random(1), vocabulary_of(folder)))
    before, after = (Engine("minilm", quantization=q).embed(texts) for q in ("none", quantization))
    cosines = (before * after).sum(1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)
    print(
        f"\nminilm, {quantization}, {TEXTS} texts: cosine {cosines.mean():.4f} on average, {cosines.min():.4f} at worst"
    )
    assert cosines.mean() >= 0.995 and cosines.min() >= 0.98
    assert cosines.mean() < 0.9999, f"this was not {quantization}"


def check_grammar(quantization: str) -> None:
    """Fails if more than 1 % of the exact answers are lost; ``make accuracy`` takes 2,000 sentences."""
    held = list(islice(pairs(SEED, held=True), SENTENCES))
    before, after = (
        Engine("grammar", quantization=q).generate([pair.wrong for pair in held], logprobs=True)
        for q in ("none", quantization)
    )
    exact = [fmean(a.text == pair.right for a, pair in zip(given, held, strict=True)) for given in (before, after)]
    answers = list(zip(before, after, strict=True))
    identical = fmean(a.token_ids == b.token_ids for a, b in answers)
    # Up to the first token that differs: what follows it follows another text.
    errors = [
        abs(x - y)
        for a, b in answers
        for (_, x), (_, y) in takewhile(lambda step: step[0][0] == step[1][0], zip(_steps(a), _steps(b), strict=False))
    ]
    print(
        f"\ngrammar, {quantization}, {SENTENCES} sentences: {exact[0]:.1%} exact before, {exact[1]:.1%} after; "
        f"{identical:.1%} identical; log-probabilities {fmean(errors):.4f} apart on average, "
        f"{max(errors):.3f} at worst"
    )
    assert exact[0] > 0.9
    assert exact[0] - exact[1] <= 0.01
    assert max(errors) > 0, f"this was not {quantization}"


def _steps(answer: Generation) -> Iterable[tuple[int, float]]:
    """Tokens with their log-probabilities."""
    return zip(answer.token_ids, answer.logprobs or (), strict=True)
