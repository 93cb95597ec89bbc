"""What the tests of FP8 and of int8 share: small models with rounded weights, and packaged models before and after."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import VOCAB
from decoders import VOCAB as DECODER_VOCAB

from examples.grammar.mistakes import pairs
from fastqps import Client, Engine
from fastqps.bench.accuracy import of_embeddings, of_generations
from fastqps.bench.measure.vocabulary import vocabulary_of
from fastqps.models.names import packaged
from fastqps.process.server_process import ServerProcess
from loadgen import texts as made

LAYERS = 4
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
    """Fails unless the vectors of 60 texts stay close. The bounds are the project's; ``make accuracy`` takes 1,000."""
    folder = packaged("minilm")
    if folder is None:
        pytest.skip("the weights of minilm are not installed")
    texts = list(made.texts(made.parse("uniform:4,40"), 60, random.Random(5), vocabulary_of(folder)))
    before, after = (Engine("minilm", quantization=q).predict(texts) for q in ("none", quantization))
    found = of_embeddings(before, after)  # type: ignore[arg-type]
    assert found["cosine_mean"] >= 0.995 and found["cosine_worst"] >= 0.98
    assert found["cosine_mean"] < 0.9999, f"this was not {quantization}"


def check_grammar(quantization: str) -> None:
    """Fails if more than 1 % of the exact answers are lost in 300 sentences; ``make accuracy`` takes 2,000."""
    held = list(islice(pairs(7, held=True), 300))
    before, after = (
        Engine("grammar", quantization=q).generate([pair.wrong for pair in held], logprobs=True)
        for q in ("none", quantization)
    )
    found = of_generations(before, after, [pair.right for pair in held])
    assert found["exact_before"] > 0.9
    assert found["exact_loss"] <= 0.01
    assert found["logprob_error_worst"] > 0, f"this was not {quantization}"
