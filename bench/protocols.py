"""The protocols of other servers, as shares of our own ``Predict``, and those servers beside them.

Each protocol is on one core with the null device, the load on another one; other servers are on the same core.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.load import CONNECTIONS, HttpRequest, Load, wrk
from bench.peers import servers
from bench.runner import LOAD_CPU, ONE_OF_EACH, SERVER_CPU, Bench, Claim, Measure, Subject
from bench.texts import request, texts
from fastqps.api.reflection import message_class
from fastqps.process.server_process import ServerProcess

if TYPE_CHECKING:
    from google.protobuf.message import Message

MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"
BASE64, FLOATS = "/v1/embeddings, base64", "/v1/embeddings, floats"
OIP, TEI = "/v2/models/minilm/infer, binary", "/embed"
_JSON = {"Content-Type": "application/json"}
ECHO = HttpRequest("/inference", bytes(4 * 384), {"Content-Type": "application/octet-stream"})  # of mosec
SHARED = "Predict, 64 × 1"
# Name, accepted and hoped-for share of Predict.
_SHARES = (
    ("ModelInfer", 0.7, 0.9),
    (SHARED, None, None),
    (BASE64, 0.25, 0.35),
    (FLOATS, 0.10, 0.18),
    (OIP, None, None),
    (TEI, None, None),
)
# Ours, theirs, how many times as much.
_PEERS = (("ModelInfer", "Triton ModelInfer", 10), (BASE64, "mosec echo", 3), (FLOATS, "LitServe JSON", 20))


def claims() -> Iterator[Claim]:
    """Compares rates, and the server's CPU time, which other programs disturb less."""
    shares = [(name, "Predict", "", accept, goal) for name, accept, goal in _SHARES]
    beside = [(name, other, "×", accept, None) for name, other, accept in _PEERS]
    for name, other, unit, accept, goal in [*shares, *beside]:
        yield Claim(f"{name} over {other}", unit, name, other, accept, goal)
        yield Claim("… by CPU time", unit, other, name, figure="cpu_us")


def measure(bench: Bench) -> None:
    """All points in turn."""
    servers.install_servers()
    (text,) = texts(1)
    server = bench.server(*ONE_OF_EACH, "--device", "null", "--http-port", "0")
    infer = bench.write([model_infer(text)])
    subjects = [*_own(bench, server, infer, text), *_peers(bench, infer, text)]
    for subject in subjects:
        subject.load()  # a warm-up of all that a server does once
    bench.measure(subjects, claims())


def _own(bench: Bench, server: ServerProcess, infer: Path, text: str) -> Iterator[Subject]:
    predict, address, pid = bench.write([request(text)]), server.address, server.pid
    yield Subject("Predict", bench.grpc(address, predict, Load(16, 64)), pid)
    yield Subject("ModelInfer", bench.grpc(address, infer, Load(16, 64), MODEL_INFER), pid)
    yield Subject(SHARED, bench.grpc(address, predict, Load(CONNECTIONS, 1)), pid)
    for name, body in http_requests(text).items():
        yield Subject(name, http_load(bench, server.http, body), pid)


def _peers(bench: Bench, infer: Path, text: str) -> Iterator[Subject]:
    triton, triton_pid = bench.start(servers.triton(bench.folder, SERVER_CPU))
    mosec, mosec_pid = bench.start(servers.mosec(SERVER_CPU))
    litserve, litserve_pid = bench.start(servers.litserve(SERVER_CPU))
    predict = HttpRequest("/predict", http_requests(text)[FLOATS].body, _JSON)
    # With more in flight Triton's rate falls.
    yield Subject("Triton ModelInfer", bench.grpc(triton, infer, Load(16, 16), MODEL_INFER), triton_pid)
    yield Subject("mosec echo", http_load(bench, mosec, ECHO), mosec_pid)
    yield Subject("LitServe JSON", http_load(bench, litserve, predict), litserve_pid)


def http_load(bench: Bench, address: str, body: HttpRequest) -> Measure:
    """Runs of wrk."""
    script = body.write(bench.folder / f"wrk-{len(list(bench.folder.glob('wrk-*')))}")
    return lambda: wrk(address, body.path, script, bench.seconds, LOAD_CPU)._asdict()


def model_infer(text: str) -> Message:
    """``text`` as [1, 1], which Triton wants for its batches, and which is one item here, too."""
    message: Any = message_class("inference.ModelInferRequest")(model_name="minilm")
    message.inputs.add(name="text", datatype="BYTES", shape=[1, 1])
    message.raw_input_contents.append(_bytes_tensor(text))
    return message  # type: ignore[no-any-return]


def http_requests(text: str) -> dict[str, HttpRequest]:
    """By the name of their point."""
    tensor, openai = _bytes_tensor(text), {"model": "minilm", "input": text}
    parameters = {"binary_data_size": len(tensor)}
    inputs = [{"name": "text", "datatype": "BYTES", "shape": [1, 1], "parameters": parameters}]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    length = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    return {
        BASE64: HttpRequest("/v1/embeddings", json.dumps({**openai, "encoding_format": "base64"}).encode(), _JSON),
        FLOATS: HttpRequest("/v1/embeddings", json.dumps(openai).encode(), _JSON),
        OIP: HttpRequest("/v2/models/minilm/infer", head + tensor, length),
        TEI: HttpRequest("/embed", json.dumps({"inputs": text}).encode(), _JSON),
    }


def _bytes_tensor(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data
