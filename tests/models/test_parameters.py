"""A model's parameters in one block: measured without data, written by one, found by others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import write_decoder
from model_runs import random_items, run
from padded import PaddedDecoder, PaddedEncoder, TorchDecodeOps, TorchEncoderOps
from safetensors.torch import load_file, save_file

from fastqps.architectures.packed import PackedModel
from fastqps.engine.generator import Generator
from fastqps.models import ModelError, load_card
from fastqps.ops.parameters import Parameters, SharedParameters
from fastqps.ops.precision import Precision
from fastqps.runners.decoder import load_llama, make_state

pytestmark = pytest.mark.compute

FLOAT32 = torch.float32
PROMPTS = [[1, 2, 3], [4]]


def bert(path: Path) -> None:
    write_checkpoint(path, "bert")
    write_sentence_modules(path, "mean", dense=True)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "bert": bert,
    "modernbert": lambda path: write_checkpoint(path, "modernbert", "classify"),
    "llama": lambda path: write_decoder(path, "llama-gqa-tied"),
    "qwen3": lambda path: write_decoder(path, "qwen3-biased"),
}


@pytest.mark.parametrize("quantization", ["none", "fp8"])
@pytest.mark.parametrize("kind", WRITERS)
def test_one_block_for_all(tmp_path: Path, kind: str, quantization: str) -> None:
    WRITERS[kind](tmp_path)
    generates = kind in ("llama", "qwen3")
    card = load_card(str(tmp_path), 12, **({"max_output_tokens": 4} if generates else {}))
    card = replace(card, prefix_ids=(5, 6) if generates else ())

    def build(parameters: Parameters) -> Any:
        precision = Precision(quantization, log=lambda line: None)
        if generates:
            return load_llama(card, TorchDecodeOps(FLOAT32, parameters, precision))
        return PackedModel(card, TorchEncoderOps(FLOAT32, parameters, precision))

    def answers(model: Any) -> Any:
        if generates:
            runner = PaddedDecoder(card, model, make_state(card, model, 2), 12)
            return Generator(card, runner=runner).generate(PROMPTS, logprobs=True)
        return run(PaddedEncoder(model, 4, 40), random_items(np.random.default_rng(0), 3, longest=12)).tolist()

    measured = SharedParameters.measuring()
    build(measured)
    block = torch.full((measured.used_bytes,), 255, dtype=torch.uint8)
    with pytest.raises(ModelError, match="do not fit"):
        build(SharedParameters(block[:-1], write=True))
    owner, follower = SharedParameters(block, write=True), SharedParameters(block, write=False)
    want = answers(build(Parameters("cpu")))
    assert answers(build(owner)) == want
    before = block.clone()
    for file in tmp_path.rglob("model*.safetensors"):
        save_file({name: torch.full_like(tensor, torch.nan) for name, tensor in load_file(file).items()}, file)
    assert answers(build(follower)) == want
    assert torch.equal(block, before), "who follows writes nothing"
    assert {measured.layout, owner.layout, follower.layout} == {measured.layout}
