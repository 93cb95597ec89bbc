"""Whole models in FP8: against transformers with the same numbers rounded, and against themselves without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint, write_sentence_modules
from compressed import compress
from decoders import expected, write_decoder
from quantized import (
    ITEMS,
    LAYERS,
    PROMPTS,
    check_grammar,
    check_minilm,
    check_served,
    deviation,
    logprobs_of,
    mean_vectors,
    round_inputs,
    round_products,
)

from fastqps import Engine
from fastqps.devices import DeviceError, make_runner
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.models import load_card

pytestmark = pytest.mark.compute

ENCODER_WEIGHTS = {
    "bert": r"encoder\.layer\.\d+\..*(query|key|value|dense)\.weight",
    "distilbert": r"transformer\.layer\.\d+\..*lin\d?\.weight",
    "modernbert": r"layers\.\d+\..*(Wqkv|Wo|Wi)\.weight",
    "qwen3": r"layers\.\d+\..*_proj\.weight",
    "gemma3_text": r"layers\.\d+\..*_proj\.weight",
}
DECODER_WEIGHTS = r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight"


def rounded(x: torch.Tensor) -> torch.Tensor:
    values, scales = quantise_rows(x.flatten(0, -2))
    return (values.float() * scales).view(x.shape)


# The output projection of attention, which stays in the model's type unless the checkpoint has it in FP8.
OUT = ("attention.output.dense", "attention.out_lin", "attn.Wo", "self_attn.o_proj")


def layers_of(model: Any) -> list[torch.nn.Module]:
    for path in ("encoder.layer", "transformer.layer", "model.layers", "layers"):
        try:
            return list(model.get_submodule(path))
        except AttributeError:
            continue
    raise AssertionError("the model's layers have moved")


def encoded(path: Path, quantization: str) -> np.ndarray[Any, Any]:
    engine = Engine(str(path), dtype="float32", quantization=quantization)
    return np.stack(engine.predict(ITEMS))


@pytest.mark.parametrize("family", ENCODER_WEIGHTS)
def test_inner_layers_of_an_encoder(family: str, tmp_path: Path) -> None:
    layers: dict[str, Any] = {"n_layers" if family == "distilbert" else "num_hidden_layers": LAYERS}
    model = write_checkpoint(tmp_path, family, **layers)
    write_sentence_modules(tmp_path)
    plain = mean_vectors(model)
    round_products(layers_of(model)[1:-1], rounded, but=OUT)
    want = mean_vectors(model)
    found = encoded(tmp_path, "fp8")
    assert deviation(encoded(tmp_path, "none"), plain) < 1e-5
    # A number that falls on the other side of a rounding limit changes others by as much as the format is coarse.
    assert deviation(want, plain) > 0.01
    assert deviation(found, want) < 0.003


@pytest.mark.parametrize("family", ENCODER_WEIGHTS)
def test_an_encoder_that_is_fp8_already(family: str, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path, family)
    write_sentence_modules(tmp_path)
    plain = compress(tmp_path, ENCODER_WEIGHTS[family])
    model.load_state_dict(plain, strict=False)
    assert deviation(encoded(tmp_path, "none"), mean_vectors(model)) < 1e-5
    round_products(layers_of(model), rounded)
    assert deviation(encoded(tmp_path, "fp8"), mean_vectors(model)) < 0.003


def generated(path: Path, quantization: str) -> tuple[list[list[int]], list[list[float]]]:
    engine = Engine(str(path), dtype="float32", quantization=quantization, max_output_tokens=8)
    answers = engine.generate(PROMPTS, logprobs=True)
    engine.close()
    return [answer.token_ids for answer in answers], [answer.logprobs or [] for answer in answers]


def check_generation(path: Path, model: Any) -> None:
    """The log-probabilities of what FP8 has generated are those that transformers gives these very tokens.

    But for the few behind a number that falls on the other side of a rounding limit.
    """
    tokens, logprobs = generated(path, "fp8")
    want = [logprobs_of(model, ids, made) for ids, made in zip(PROMPTS, tokens, strict=True)]
    errors = np.abs(np.subtract(np.concatenate(logprobs), np.concatenate(want)))
    assert np.median(errors) < 1e-4
    assert errors.max() < 0.1


@pytest.mark.parametrize("kind", ["llama-gqa-tied", "llama-biased", "qwen2", "qwen3"])
def test_inner_layers_of_a_decoder(kind: str, tmp_path: Path) -> None:
    model = write_decoder(tmp_path, kind, num_hidden_layers=LAYERS)
    assert generated(tmp_path, "none")[0] == [expected(model, ids, 8) for ids in PROMPTS]
    round_products(layers_of(model)[1:-1], rounded, but=OUT)
    check_generation(tmp_path, model)


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
                round_inputs(module, rounded)
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
                round_inputs(module, rounded)
    check_generation(tmp_path, model)


def test_auto_keeps_what_is_faster_here(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_checkpoint(tmp_path, "bert", num_hidden_layers=LAYERS)
    capfd.readouterr()
    encoded(tmp_path, "auto")
    _, *lines, stored, last = capfd.readouterr().err.splitlines()
    assert stored.startswith("quantization auto: choice stored in ")
    assert [line.split(": ")[1].split(" at ")[0] for line in lines] == ["96 × 32", "32 × 32", "64 × 32", "32 × 64"]
    chosen = [line.rpartition(" µs: ")[2] for line in lines]
    assert set(chosen) <= {"int8", "no int8"}
    inner = (LAYERS - 2) * chosen.count("int8")
    assert last == f"quantization auto: {inner} of {4 * LAYERS} matrix products in int8"


def test_a_server_computes_what_this_process_does() -> None:
    check_served("fp8", "quantization fp8: 6 of 17 matrix products in FP8")


def test_what_is_no_quantization(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    with pytest.raises(DeviceError, match="no quantization 'int4'; there is: none, fp8, int8, auto"):
        make_runner("cpu", load_card(str(tmp_path)), 4, 64, quantization="int4")


def test_minilm_stays_what_it_is() -> None:
    check_minilm("fp8")


def test_grammar_corrects_as_before() -> None:
    check_grammar("fp8")
