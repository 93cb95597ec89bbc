"""The demo's fastest half: WordLlama, a static model, under the load generator, with each answer checked."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import Message
from google.protobuf.proto import serialize_length_prefixed

from examples.demo.sentences import MANY
from fastqps import Engine
from fastqps.v1 import predict_pb2, predict_pb2_grpc

METHOD = "/fastqps.v1.PredictService/Predict"
SECONDS, IN_FLIGHT = 5, 512
CLOSE = 1e-5


def show_static(address: str, folder: Path) -> bool:
    """Load from the native generator. True if an answer was wrong, or a call failed."""
    print(f"6. Load WordLlama, a static model, for {SECONDS} s from the load generator: {IN_FLIGHT} calls in flight")
    payloads, answers = folder / "payloads", folder / "answers"
    requests = [predict_pb2.PredictRequest(model="wordllama", text=text) for text in MANY]
    with grpc.insecure_channel(address) as channel:
        predict = predict_pb2_grpc.PredictServiceStub(channel).Predict  # type: ignore[no-untyped-call]
        found = [predict(request, timeout=30) for request in requests]
    vectors = np.array([answer.embedding.values for answer in found], np.float32)
    if (worst := float(np.abs(vectors - Engine("wordllama").embed(MANY)).max())) > CLOSE:
        print(f"   WRONG: the server's answers differ from fastqps.Engine's by {worst:.1e}")
        return True
    _write(payloads, requests)
    _write(answers, found)
    flags = ["--closed", str(IN_FLIGHT), "--duration", f"{SECONDS}s", "--connections", "8"]
    checks = ["--expect", str(answers), "--json", "-"]
    command = [sys.executable, "-m", "loadgen", "--target", address, "--method", METHOD, "--delimited"]
    command += ["--payload", str(payloads), *flags, *checks]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS + 60)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        print(f"   FAILED: the load generator gave no result: {done.stderr.strip()[-300:]}")
        return True
    checked = result["verified"]
    print(f"   {result['calls']['ok']:,} answers, {result['rate']:,.0f} per second over gRPC, one text each")
    print(f"   {checked['checked']:,} of them compared with fastqps.Engine's answers: {checked['wrong']:,} wrong")
    failures = {status: count for status, count in result["status"].items() if status != "OK"}
    for status, count in failures.items():
        print(f"   FAILED {count} times: {status}")
    print()
    return bool(failures or checked["wrong"]) or not checked["checked"]


def _write(path: Path, messages: Iterable[Message]) -> None:
    stream = io.BytesIO()
    for message in messages:
        serialize_length_prefixed(message, stream)
    path.write_bytes(stream.getvalue())
