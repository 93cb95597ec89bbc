"""What an operator and a client hear of a model that does not do all that it could."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from checkpoints import write_checkpoint
from serving import PATIENCE_S, Server
from word_files import write_words

import fastqps
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

OWN = {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid", "of_its_own": 1}


@pytest.fixture
def cross_encoder(tmp_path: Path) -> str:
    write_checkpoint(tmp_path, "bert", "classify", num_labels=1, vocab_size=300)
    write_words(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | OWN))
    return f"--model=m={tmp_path}"


def test_warnings_are_logged_and_listed(serve: Any, cross_encoder: str) -> None:
    server: Server = serve(cross_encoder, "--max-input-tokens=40")
    with fastqps.Client(server.address) as client:
        (model,) = client.models()
    limit, unknown = model.warnings
    assert "at most 40 tokens and the model takes 64" in limit and "of_its_own" in unknown
    for warning in model.warnings:
        assert server.log().count(f"WARNING supervisor: m: {warning}") == 1


@pytest.mark.parametrize("allowed", [False, True])
def test_a_single_text_for_a_cross_encoder(serve: Any, cross_encoder: str, allowed: bool) -> None:
    flags = ("--allow-single-texts",) if allowed else ()
    server: Server = serve(cross_encoder, *flags)
    with grpc.insecure_channel(server.address) as channel:
        stub = predict_pb2_grpc.PredictServiceStub(channel)
        pair = pb.PredictRequest(pair={"first": "a", "second": "b"})
        assert stub.Predict(pair, timeout=PATIENCE_S).classification.labels
        assert stub.Predict(pb.PredictRequest(token_ids={"ids": [5, 6]}), timeout=PATIENCE_S).classification.labels
        if allowed:
            assert stub.Predict(pb.PredictRequest(text="a"), timeout=PATIENCE_S).classification.labels
            return
        with pytest.raises(grpc.RpcError) as refused:
            stub.Predict(pb.PredictRequest(text="a"), timeout=PATIENCE_S)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "'m' scores pairs of texts; send a pair" in refused.value.details()
    assert "--allow-single-texts" in refused.value.details()
