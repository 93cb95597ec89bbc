"""Whole models in FP8 and int8: against transformers with the same numbers rounded, and against themselves without."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import VOCAB, write_checkpoint, write_sentence_modules
from compressed import compress
from decoders import VOCAB as DECODER_VOCAB
from decoders import expected, write_decoder
from test_cpu_products import rounded as rounded_to_int8

from examples.grammar.evaluate import SEED
from examples.grammar.mistakes import pairs
from fastqps import Engine
from fastqps.api.prediction import Generation
from fastqps.bench.measure.workload import vocabulary_of
from fastqps.devices import DeviceError, make_runner
from fastqps.host import machine
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.models import load_card
from fastqps.models.names import packaged
from loadgen import texts as made

pytestmark = pytest.mark.compute

LAYERS = 4
TEXTS = int(os.environ.get("FASTQPS_ACCURACY_TEXTS", "60"))
SENTENCES = int(os.environ.get("FASTQPS_ACCURACY_SENTENCES", "300"))
PROMPTS = [[(7 * i + 3 * j) % DECODER_VOCAB for j in range(n)] for i, n in enumerate((1, 5, 9, 20))]
ITEMS = [[(11 * i + 5 * j) % VOCAB for j in range(n)] for i, n in enumerate((2, 7, 16, 33))]

Rounding = Callable[[torch.Tensor], torch.Tensor]
ENCODER_WEIGHTS = {
    "bert": r"encoder\.layer\.\d+\..*(query|key|value|dense)\.weight",
    "distilbert": r"transformer\.layer\.\d+\..*lin\d?\.weight",
    "modernbert": r"layers\.\d+\..*(Wqkv|Wo|Wi)\.weight",
    "qwen3": r"layers\.\d+\..*_proj\.weight",
    "gemma3_text": r"layers\.\d+\..*_proj\.weight",
}
DECODER_WEIGHTS = r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight"


def rounded_to_fp8(x: torch.Tensor) -> torch.Tensor:
    values, scales = quantise_rows(x.flatten(0, -2))
    return (values.float() * scales).view(x.shape)


# The output projection of attention, which stays in the model's type unless the checkpoint has it in FP8.
OUT = ("attention.output.dense", "attention.out_lin", "attn.Wo", "self_attn.o_proj")


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


def round_all_but_the_largest_logits(model: Any) -> None:
    """Makes a head of transformers compute what ``exact`` of fastqps/ops/cpu/matrix.py does."""

    def refined(head: torch.nn.Linear, args: tuple[torch.Tensor], exact: torch.Tensor) -> torch.Tensor:
        coarse = rounded_to_int8(args[0]) @ rounded_to_int8(head.weight.data).T
        largest = coarse.topk(16).indices
        return coarse.scatter(-1, largest, exact.gather(-1, largest))

    model.lm_head.register_forward_hook(refined)


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


def layers_of(model: Any) -> list[torch.nn.Module]:
    for path in ("encoder.layer", "transformer.layer", "model.layers", "layers"):
        try:
            return list(model.get_submodule(path))
        except AttributeError:
            continue
    raise AssertionError("the model's layers have moved")


def encoded(path: Path, quantization: str, items: list[list[int]] = ITEMS) -> np.ndarray[Any, Any]:
    engine = Engine(str(path), dtype="float32", quantization=quantization)
    return np.stack(engine.predict(items))


@pytest.mark.parametrize("family", ENCODER_WEIGHTS)
def test_inner_layers_of_an_encoder(family: str, tmp_path: Path) -> None:
    layers: dict[str, Any] = {"n_layers" if family == "distilbert" else "num_hidden_layers": LAYERS}
    model = write_checkpoint(tmp_path, family, **layers)
    write_sentence_modules(tmp_path)
    plain = mean_vectors(model)
    round_products(layers_of(model)[1:-1], rounded_to_fp8, but=OUT)
    want = mean_vectors(model)
    found = encoded(tmp_path, "fp8")
    assert deviation(encoded(tmp_path, "none"), plain) < 1e-5
    # A number that falls on the other side of a rounding limit changes others by as much as the format is coarse.
    assert deviation(want, plain) > 0.01
    assert deviation(found, want) < 0.003


@pytest.mark.parametrize("family", ["bert", "modernbert", "qwen3", "gemma3_text"])
def test_an_encoder_in_int8(family: str, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path, family, num_hidden_layers=LAYERS)
    write_sentence_modules(tmp_path)
    plain = mean_vectors(model)
    round_products(layers_of(model), rounded_to_int8)
    want, found = mean_vectors(model), encoded(tmp_path, "int8")
    coarse = deviation(want, plain)
    errors = [deviation(*rows) for rows in zip(found, want, strict=True)]
    # A number that falls on the other side of a rounding limit changes its item by as much as the format is coarse.
    assert np.median(errors) < 0.01 * coarse and max(errors) < coarse < 0.1
    alone = np.concatenate([encoded(tmp_path, "int8", [item]) for item in ITEMS])
    assert np.abs(alone - found).max() == 0


@pytest.mark.parametrize("family", ENCODER_WEIGHTS)
def test_an_encoder_that_is_fp8_already(family: str, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path, family)
    write_sentence_modules(tmp_path)
    plain = compress(tmp_path, ENCODER_WEIGHTS[family])
    model.load_state_dict(plain, strict=False)
    assert deviation(encoded(tmp_path, "none"), mean_vectors(model)) < 1e-5
    round_products(layers_of(model), rounded_to_fp8)
    assert deviation(encoded(tmp_path, "fp8"), mean_vectors(model)) < 0.003


def generated(path: Path, quantization: str) -> tuple[list[list[int]], list[list[float]]]:
    engine = Engine(str(path), dtype="float32", quantization=quantization, max_output_tokens=8)
    answers = engine.generate(PROMPTS, logprobs=True)
    engine.close()
    return [answer.token_ids for answer in answers], [answer.logprobs or [] for answer in answers]


def check_generation(path: Path, model: Any, quantization: str = "fp8") -> None:
    """The log-probabilities of what was generated are those that transformers gives these very tokens.

    But for the few behind a number that falls on the other side of a rounding limit.
    """
    tokens, logprobs = generated(path, quantization)
    want = [logprobs_of(model, ids, made) for ids, made in zip(PROMPTS, tokens, strict=True)]
    errors = np.abs(np.subtract(np.concatenate(logprobs), np.concatenate(want)))
    assert np.median(errors) < 1e-4
    assert errors.max() < 0.1


@pytest.mark.parametrize("kind", ["llama-gqa-tied", "llama-biased", "qwen2", "qwen3"])
def test_inner_layers_of_a_decoder(kind: str, tmp_path: Path) -> None:
    model = write_decoder(tmp_path, kind, num_hidden_layers=LAYERS)
    assert generated(tmp_path, "none")[0] == [expected(model, ids, 8) for ids in PROMPTS]
    round_products(layers_of(model)[1:-1], rounded_to_fp8, but=OUT)
    check_generation(tmp_path, model)


@pytest.mark.parametrize("kind", ["llama-gqa-tied", "qwen2"])
def test_a_decoder_in_int8(kind: str, tmp_path: Path) -> None:
    model = write_decoder(tmp_path, kind, num_hidden_layers=LAYERS)
    round_products(layers_of(model), rounded_to_int8)
    round_all_but_the_largest_logits(model)
    check_generation(tmp_path, model, "int8")


@pytest.mark.parametrize("strategy", ["channel", "tensor"])
@pytest.mark.parametrize("kind", ["llama-gqa-tied", "llama-biased", "qwen3"])
def test_a_decoder_that_is_fp8_already(kind: str, strategy: str, tmp_path: Path) -> None:
    model = write_decoder(tmp_path, kind)
    plain = compress(tmp_path, DECODER_WEIGHTS, strategy)
    model.load_state_dict(plain, strict=False)
    assert generated(tmp_path, "none")[0] == [expected(model, ids, 8) for ids in PROMPTS]
    for layer in layers_of(model):
        for module in layer.modules():
            if isinstance(module, torch.nn.Linear):
                round_inputs(module, rounded_to_fp8)
    check_generation(tmp_path, model)


def test_products_of_which_only_a_part_is_fp8(tmp_path: Path) -> None:
    """A query left as it was, and a gate: what is one product here is then computed from plain numbers."""
    model = write_decoder(tmp_path, "llama-gqa-tied")
    plain = compress(tmp_path, r"model\.layers\.\d+\.(self_attn\.[kvo]|mlp\.(up|down))_proj\.weight")
    model.load_state_dict(plain, strict=False)
    assert generated(tmp_path, "none")[0] == [expected(model, ids, 8) for ids in PROMPTS]
    for layer in layers_of(model):
        for name, module in layer.named_modules():
            if name.endswith(("o_proj", "down_proj")):
                round_inputs(module, rounded_to_fp8)
    check_generation(tmp_path, model)


def test_auto_is_int8_on_a_cpu_with_avx2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset({"avx2"}))
    write_checkpoint(tmp_path, "bert", num_hidden_layers=LAYERS)
    encoded(tmp_path, "auto")
    all_of_them = f"{4 * LAYERS} of {4 * LAYERS}"
    assert f"quantization int8: {all_of_them} matrix products in int8\n" in capfd.readouterr().err


def test_what_is_no_quantization(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    with pytest.raises(DeviceError, match="no quantization 'int4'; there is: none, fp8, int8, auto"):
        make_runner("cpu", load_card(str(tmp_path)), 4, 64, quantization="int4")


@pytest.mark.parametrize("quantization", ["fp8", "int8"])
def test_minilm_stays_what_it_is(quantization: str) -> None:
    """The bounds are the project's; ``make accuracy`` takes 1,000 texts."""
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


@pytest.mark.parametrize("quantization", ["fp8", "int8"])
def test_grammar_corrects_as_before(quantization: str) -> None:
    """It loses at most 1 % of the exact answers; ``make accuracy`` takes 2,000 sentences."""
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
        for (_, x), (_, y) in takewhile(lambda step: step[0][0] == step[1][0], zip(steps(a), steps(b), strict=False))
    ]
    print(
        f"\ngrammar, {quantization}, {SENTENCES} sentences: {exact[0]:.1%} exact before, {exact[1]:.1%} after; "
        f"{identical:.1%} identical; log-probabilities {fmean(errors):.4f} apart on average, "
        f"{max(errors):.3f} at worst"
    )
    assert exact[0] > 0.9
    assert exact[0] - exact[1] <= 0.01
    assert max(errors) > 0, f"this was not {quantization}"


def steps(answer: Generation) -> Iterable[tuple[int, float]]:
    """Tokens with their log-probabilities."""
    return zip(answer.token_ids, answer.logprobs or (), strict=True)
