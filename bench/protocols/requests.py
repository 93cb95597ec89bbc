"""The same text in the request of each protocol, and what of the answers is compared with ``Predict``'s."""

from __future__ import annotations

import base64
import json
import struct
import urllib.request
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from bench.protocols.wrk import HttpRequest
from fastqps import Client
from fastqps.api.reflection import message_class
from fastqps.bench.results.result import BenchError

if TYPE_CHECKING:
    from google.protobuf.message import Message

MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"
Floats = np.ndarray[Any, np.dtype[np.float32]]
_JSON = {"Content-Type": "application/json"}


def model_infer(text: str) -> Message:
    """``text`` as [1, 1], which Triton wants for its batches, and which is one item here, too."""
    message: Any = message_class("inference.ModelInferRequest")(model_name="minilm")
    message.inputs.add(name="text", datatype="BYTES", shape=[1, 1])
    message.raw_input_contents.append(_bytes_tensor(text))
    return message  # type: ignore[no-any-return]


def http_requests(text: str) -> dict[str, HttpRequest]:
    """By the name of their point."""
    tensor = _bytes_tensor(text)
    parameters = {"binary_data_size": len(tensor)}
    inputs = [{"name": "text", "datatype": "BYTES", "shape": [1, 1], "parameters": parameters}]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    length = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    openai = {"model": "minilm", "input": text}
    base64_ = json.dumps({**openai, "encoding_format": "base64"}).encode()
    return {
        BASE64: HttpRequest("/v1/embeddings", base64_, _JSON),
        FLOATS: HttpRequest("/v1/embeddings", json.dumps(openai).encode(), _JSON),
        OIP: HttpRequest("/v2/models/minilm/infer", head + tensor, length),
        TEI: HttpRequest("/embed", json.dumps({"inputs": text}).encode(), _JSON),
    }


BASE64, FLOATS = "/v1/embeddings, base64", "/v1/embeddings, floats"
OIP, TEI = "/v2/models/minilm/infer, binary", "/embed"


def check(grpc_address: str, http_address: str, text: str) -> None:
    """``BenchError`` unless every protocol answers with the floats of ``Predict``, bit by bit."""
    with Client(grpc_address) as client:
        wanted = np.asarray(client.predict(text).embedding, np.float32)
    found = {MODEL_INFER: _infer(grpc_address, text)}
    for name, request in http_requests(text).items():
        url = f"http://{http_address}{request.path}"
        with urllib.request.urlopen(urllib.request.Request(url, request.body, request.headers), timeout=30) as answer:
            found[name] = _READ[name](answer.read(), dict(answer.headers))
    for name, floats in found.items():
        if not np.array_equal(floats, wanted):
            raise BenchError(f"{name} does not answer as Predict does")


def _infer(address: str, text: str) -> Floats:
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(
            MODEL_INFER,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class("inference.ModelInferResponse").FromString,
        )
        answer: Any = call(model_infer(text), timeout=30)
    return np.frombuffer(answer.raw_output_contents[0], np.float32)


def _bytes_tensor(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def _after_header(body: bytes, headers: Mapping[str, str]) -> bytes:
    lengths = {name.lower(): value for name, value in headers.items()}
    return body[int(lengths["inference-header-content-length"]) :]


_READ: dict[str, Callable[[bytes, Mapping[str, str]], Floats]] = {
    BASE64: lambda body, _: np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), np.float32),
    FLOATS: lambda body, _: np.asarray(json.loads(body)["data"][0]["embedding"], np.float32),
    OIP: lambda body, headers: np.frombuffer(_after_header(body, headers), np.float32),
    TEI: lambda body, _: np.asarray(json.loads(body)[0], np.float32),
}
