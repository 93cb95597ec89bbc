"""A damaged row of weights makes some results NaN: those items fail and no others, and the log says so once a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoints import write_checkpoint
from decoders import write_decoder
from safetensors.torch import load_file, save_file
from serving import PATIENCE_S, Server, until

import fastqps
from fastqps.models import ModelError

DAMAGED = 7  # the token whose row of the embedding table is NaN
INTERNAL = 13


def damage(path: Path) -> Path:
    weights = load_file(path / "model.safetensors")
    (name,) = (name for name in weights if name.endswith(("embed_tokens.weight", "word_embeddings.weight")))
    weights[name][DAMAGED] = torch.nan
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path


def test_results_that_are_no_numbers(serve: Callable[..., Server], tmp_path: Path) -> None:
    write_decoder(tmp_path / "decoder", "llama")
    write_checkpoint(tmp_path / "encoder", "bert")
    decoder, encoder = damage(tmp_path / "decoder"), damage(tmp_path / "encoder")
    models = (f"--model={encoder}", f"--model={decoder}")
    server = serve(*models, "--device=cpu", "--dispatchers=1", "--max-output-tokens=8")
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        for _ in range(2):
            good, bad, other = client.predict_batch([[5, 6], [5, DAMAGED], [6]], model="encoder")
            assert isinstance(bad, fastqps.PredictionError) and bad.error.code == INTERNAL
            assert "the model's result is NaN or infinite" in str(bad.error)
            assert isinstance(good, fastqps.Prediction) and isinstance(other, fastqps.Prediction)
            for options in ({}, {"logprobs": True}, {"temperature": 1.0}):
                with pytest.raises(fastqps.CallError, match="the model's result is NaN or infinite") as raised:
                    client.generate([5, DAMAGED], model="decoder", **options)
                assert raised.value.code == INTERNAL
            with pytest.raises(fastqps.CallError, match="the model's result is NaN or infinite"):
                list(client.generate_stream([5, DAMAGED], model="decoder"))
            assert client.generate([5, 6], model="decoder", max_tokens=4, ignore_eos=True).token_ids
    for model in ("encoder", "decoder"):
        said = f"model {model}: a result is NaN or infinite"
        until(lambda said=said: said in server.log(), said)  # type: ignore[misc]
        assert server.log().count(said) == 1


def test_an_engine_says_so(tmp_path: Path) -> None:
    write_decoder(tmp_path / "decoder", "llama")
    write_checkpoint(tmp_path / "encoder", "bert")
    decoder, encoder = damage(tmp_path / "decoder"), damage(tmp_path / "encoder")
    with pytest.raises(ModelError, match="model decoder: logits are NaN or infinite"):
        fastqps.Engine(str(decoder), dtype="float32", max_output_tokens=8).generate([[5, DAMAGED]])
    with pytest.raises(ModelError, match="model encoder: the result of item 1 is NaN or infinite"):
        fastqps.Engine(str(encoder), dtype="float32").predict([[5, 6], [5, DAMAGED]])
