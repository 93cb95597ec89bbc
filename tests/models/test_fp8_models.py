"""Whole models in FP8: against transformers with the same numbers rounded, and against themselves without it."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import VOCAB, write_checkpoint
from compressed import compress
from decoders import VOCAB as DECODER_VOCAB
from decoders import expected, write_decoder
from reference_ops.decode_ops import ReferenceDecodeOps
from reference_ops.encoder_ops import ReferenceEncoderOps

from examples.grammar.mistakes import pairs
from fastqps import Client, Engine
from fastqps.architectures.packed import PackedModel
from fastqps.bench.accuracy import of_embeddings, of_generations
from fastqps.bench.measure.texts import Lengths, made_texts, vocabulary_of
from fastqps.devices import DeviceError, make_runner
from fastqps.engine.generator import Generator
from fastqps.engine.sampling import Sampling
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.models import load_card
from fastqps.models.names import packaged
from fastqps.ops.precision import Precision
from fastqps.process.server_process import ServerProcess
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner
from fastqps.runners.pack_items import pack_items

pytestmark = pytest.mark.compute

LAYERS = 4
PROMPTS = [[(7 * i + 3 * j) % DECODER_VOCAB for j in range(n)] for i, n in enumerate((1, 5, 9, 20))]
ITEMS = [[(11 * i + 5 * j) % VOCAB for j in range(n)] for i, n in enumerate((2, 7, 16, 33))]
ENCODER_WEIGHTS = {
    "bert": r"encoder\.layer\.\d+\..*(query|key|value|dense)\.weight",
    "distilbert": r"transformer\.layer\.\d+\..*lin\d?\.weight",
    "modernbert": r"layers\.\d+\..*(Wqkv|Wo|Wi)\.weight",
}
DECODER_WEIGHTS = r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight"


def rounded(x: torch.Tensor) -> torch.Tensor:
    values, scales = quantise_rows(x.flatten(0, -2))
    return (values.float() * scales).view(x.shape)


# The output projection of attention, which stays in the model's type unless the checkpoint has it in FP8.
OUT = ("attention.output.dense", "attention.out_lin", "attn.Wo", "self_attn.o_proj")


def round_products(model: torch.nn.Module, layers: list[torch.nn.Module], but: tuple[str, ...] = ()) -> None:
    """Has each product of these layers see what FP8 leaves of its rows and of its weight, ``but`` for those."""
    for layer in layers:
        for name, module in layer.named_modules():
            if isinstance(module, torch.nn.Linear) and not name.endswith(but):
                module.weight.data = rounded(module.weight.data)
                module.register_forward_pre_hook(lambda module, args: (rounded(args[0]), *args[1:]))


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


def encoded_by_reference(path: Path) -> np.ndarray[Any, Any]:
    card = load_card(str(path))
    model = PackedModel(card, ReferenceEncoderOps(torch.float32, precision=Precision("fp8")))
    runner = EncoderRunner(model, len(ITEMS), 256)
    runner.run(*pack_items(card, [(ids, len(ids)) for ids in ITEMS], runner.buffers()))
    return runner.buffers().output[: len(ITEMS)].copy()


def oracle(model: Any) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        return np.stack([model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy() for ids in ITEMS])


def deviation(found: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(found - want) / np.linalg.norm(want))


@pytest.mark.parametrize("family", ENCODER_WEIGHTS)
def test_inner_layers_of_an_encoder(family: str, tmp_path: Path) -> None:
    layers: dict[str, Any] = {"n_layers" if family == "distilbert" else "num_hidden_layers": LAYERS}
    model = write_checkpoint(tmp_path, family, **layers)
    plain = oracle(model)
    round_products(model, layers_of(model)[1:-1], but=OUT)
    want = oracle(model)
    found = encoded(tmp_path, "fp8")
    assert deviation(encoded(tmp_path, "none"), plain) < 1e-5
    # A number that falls on the other side of a rounding limit changes others by as much as the format is coarse.
    assert deviation(want, plain) > 0.01
    assert deviation(found, want) < 0.003
    assert deviation(encoded_by_reference(tmp_path), want) < 0.003


@pytest.mark.parametrize("family", ENCODER_WEIGHTS)
def test_an_encoder_that_is_fp8_already(family: str, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path, family)
    plain = compress(tmp_path, ENCODER_WEIGHTS[family])
    model.load_state_dict(plain, strict=False)
    assert deviation(encoded(tmp_path, "none"), oracle(model)) < 1e-5
    round_products(model, layers_of(model))
    assert deviation(encoded(tmp_path, "fp8"), oracle(model)) < 0.003
    assert deviation(encoded_by_reference(tmp_path), oracle(model)) < 0.003


def generated(path: Path, quantization: str) -> tuple[list[list[int]], list[list[float]]]:
    engine = Engine(str(path), dtype="float32", quantization=quantization, max_output_tokens=8)
    answers = engine.generate(PROMPTS, logprobs=True)
    engine.close()
    return [answer.token_ids for answer in answers], [answer.logprobs or [] for answer in answers]


def generated_by_reference(path: Path) -> tuple[list[list[int]], list[list[float]]]:
    card = load_card(str(path), max_output_tokens=8)
    runner = DecoderRunner.load(card, ReferenceDecodeOps(torch.float32, precision=Precision("fp8")), 4, 160)
    answers = Generator(card, runner=runner).generate(PROMPTS, Sampling(logprobs=True))
    return [answer.token_ids for answer in answers], [answer.logprobs or [] for answer in answers]


def logprobs_of(model: Any, ids: list[int], tokens: list[int]) -> list[float]:
    with torch.inference_mode():
        logits = model(torch.tensor([ids + tokens])).logits[0].log_softmax(-1)
    return [float(logits[len(ids) + i - 1, token]) for i, token in enumerate(tokens)]


def check_generation(path: Path, model: Any) -> None:
    """The log-probabilities of what FP8 has generated are those that the oracle gives these very tokens.

    But for the few behind a number that falls on the other side of a rounding limit.
    """
    for tokens, logprobs in (generated(path, "fp8"), generated_by_reference(path)):
        want = [logprobs_of(model, ids, made) for ids, made in zip(PROMPTS, tokens, strict=True)]
        errors = np.abs(np.subtract(np.concatenate(logprobs), np.concatenate(want)))
        assert np.median(errors) < 1e-4
        assert errors.max() < 0.1


@pytest.mark.parametrize("kind", ["llama-gqa-tied", "llama-biased", "qwen2", "qwen3"])
def test_inner_layers_of_a_decoder(kind: str, tmp_path: Path) -> None:
    model = write_decoder(tmp_path, kind, num_hidden_layers=LAYERS)
    assert generated(tmp_path, "none")[0] == [expected(model, ids, 8) for ids in PROMPTS]
    round_products(model, layers_of(model)[1:-1], but=OUT)
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
                module.register_forward_pre_hook(lambda module, args: (rounded(args[0]), *args[1:]))
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
                module.register_forward_pre_hook(lambda module, args: (rounded(args[0]), *args[1:]))
    check_generation(tmp_path, model)


def test_auto_keeps_what_is_faster_here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path, "bert", num_hidden_layers=LAYERS)
    capfd.readouterr()
    encoded(tmp_path, "auto")
    *lines, stored, last = capfd.readouterr().err.splitlines()
    assert stored.startswith("quantization auto: choice stored in ")
    assert [line.split(": ")[1].split(" at ")[0] for line in lines] == ["96 × 32", "32 × 32", "64 × 32", "32 × 64"]
    chosen = [line.rpartition(" µs: ")[2] for line in lines]
    assert set(chosen) <= {"int8", "no int8"}
    inner = (LAYERS - 2) * chosen.count("int8")
    assert last == f"quantization auto: {inner} of {4 * LAYERS} matrix products in int8"


def test_a_server_computes_what_this_process_does() -> None:
    prompts = ["Nora have these axes and your ant feeds us.", "She go home yesterday."]
    lines: list[str] = []
    flags = ("--model", "grammar", "--device", "cpu", "--dispatchers", "1", "--max-running", "4")
    with (
        ServerProcess(*flags, "--quantization", "fp8", on_line=lines.append) as server,
        Client(server.address) as client,
    ):
        served = [client.generate(prompt, logprobs=True) for prompt in prompts]
    assert any(line.endswith("dispatcher 0 (cpu): quantization fp8: 6 of 17 matrix products in FP8") for line in lines)
    here, plain = (Engine("grammar", quantization=q).generate(prompts, logprobs=True) for q in ("fp8", "none"))
    assert [found.token_ids for found in served] == [found.token_ids for found in here]
    assert served[0].logprobs == pytest.approx(here[0].logprobs, abs=0.02)
    assert here[0].logprobs != plain[0].logprobs


def test_what_is_no_quantization(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    with pytest.raises(DeviceError, match="no quantization 'int4'; there is: none, fp8, int8, auto"):
        make_runner("cpu", load_card(str(tmp_path)), 4, 64, quantization="int4")


def test_minilm_stays_what_it_is() -> None:
    """The bound is the project's; ``make accuracy`` holds it over 1,000 texts."""
    folder = packaged("minilm")
    if folder is None:
        pytest.skip("the weights of minilm are not installed")
    texts = made_texts(60, Lengths.parse("uniform:4,40"), random.Random(5), vocabulary_of(folder))
    before, after = (Engine("minilm", quantization=q).predict(texts) for q in ("none", "fp8"))
    found = of_embeddings(before, after)  # type: ignore[arg-type]
    assert found["cosine_mean"] >= 0.995 and found["cosine_worst"] >= 0.98
    assert found["cosine_mean"] < 0.9999, "this was not FP8"


def test_grammar_corrects_as_before() -> None:
    """At most one point of exact answers; ``make accuracy`` holds it over 2,000 sentences."""
    held = list(islice(pairs(7, held=True), 300))
    before, after = (
        Engine("grammar", quantization=q).generate([pair.wrong for pair in held], logprobs=True)
        for q in ("none", "fp8")
    )
    found = of_generations(before, after, [pair.right for pair in held])
    assert found["exact_before"] > 0.9
    assert found["exact_loss"] <= 0.01
    assert found["logprob_error_worst"] > 0, "this was not FP8"
