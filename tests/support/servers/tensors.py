"""Requests and answers of the Open Inference Protocol in each of its forms: over gRPC and HTTP, binary and not."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import numpy as np
from apis import Api
from serving import PATIENCE_S

from fastqps.api.reflection import message_class

MODEL_INFER = "inference.GRPCInferenceService/ModelInfer"
JSON_SIZE = "Inference-Header-Content-Length"
_TYPES = {"FP32": np.float32, "FP16": np.float16, "INT32": np.int32, "INT8": np.int8, "UINT8": np.uint8}
_KINDS = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
_CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}


class Refused(Exception):
    """``code``: of gRPC, or what it is of HTTP's status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True)
class Asked:
    """A request. ``inputs``: by name, texts or rows of ids; ``column``: texts are of the shape [n, 1]."""

    inputs: dict[str, Sequence[str] | np.ndarray]
    model: str = "minilm"
    parameters: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    column: bool = False
    id: str = "an id"

    def message(self, *, raw: bool = True) -> Any:
        """The request over gRPC, whose contents are raw or typed."""
        request: Any = message_class("inference.ModelInferRequest")(model_name=self.model, id=self.id)
        for name, values in self.inputs.items():
            datatype, shape, contents = self._tensor(values)
            tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
            if raw:
                request.raw_input_contents.append(contents)
            elif datatype == "BYTES":
                tensor.contents.bytes_contents.extend(text.encode() for text in values)
            else:
                typed = tensor.contents.int64_contents if datatype == "INT64" else tensor.contents.int_contents
                typed.extend(int(value) for value in np.ravel(values))
        for name, value in self.parameters.items():
            setattr(request.parameters[name], "uint64_param" if name == "priority" else _KINDS[type(value)], value)
        for name in self.outputs:
            request.outputs.add(name=name)
        return request

    def document(self, form: str) -> tuple[dict[str, Any], bytes]:
        """The request over HTTP, and what is behind its JSON. ``form``: of data, "flat", "nested" or "binary"."""
        inputs, binary = [], b""
        for name, values in self.inputs.items():
            datatype, shape, contents = self._tensor(values)
            tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
            if form == "binary":
                tensor["parameters"] = {"binary_data_size": len(contents)}
                binary += contents
            else:
                data = np.array(values, object).reshape(shape if form == "nested" else -1)
                tensor["data"] = data.tolist()
            inputs.append(tensor)
        document = {"id": self.id, "inputs": inputs, "outputs": [{"name": name} for name in self.outputs]}
        return {**document, "parameters": {**self.parameters, "binary_data_output": form == "binary"}}, binary

    def _tensor(self, values: Sequence[str] | np.ndarray) -> tuple[str, list[int], bytes]:
        """(datatype, shape, raw contents)."""
        if isinstance(values, np.ndarray):
            return values.dtype.name.upper(), list(values.shape), values.tobytes()
        shape = [len(values), 1] if self.column else [len(values)]
        return "BYTES", shape, b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in values)


def texts_of(raw: bytes) -> Iterator[str]:
    """The elements of a BYTES tensor."""
    while raw:
        size = struct.unpack_from("<I", raw)[0]
        yield raw[4 : 4 + size].decode()
        raw = raw[4 + size :]


def tensors(outputs: Any, raws: Sequence[bytes]) -> dict[str, np.ndarray]:
    """The outputs of an answer over gRPC, by name."""
    found = {}
    for output, raw in zip(outputs, raws, strict=True):
        found[output.name] = _values(output.datatype, raw).reshape(list(output.shape))
    return found


def _values(datatype: str, raw: bytes) -> np.ndarray:
    if datatype == "BYTES":
        return np.array([*texts_of(raw)], object)
    return np.frombuffer(raw, _TYPES[datatype])


def as_the_client(values: np.ndarray, dtype: str) -> np.ndarray:
    """An embedding of this ``output_dtype`` as ``fastqps.Client`` gives it: int8 and uint8 as numbers from -1 to 1."""
    zero = {"int8": 0, "uint8": 128}.get(dtype)
    return values if zero is None else (values.astype(np.float32) - np.float32(zero)) / np.float32(127)


def over_grpc(api: Api, asked: Asked, *, raw: bool = True) -> dict[str, np.ndarray]:
    request = asked.message(raw=raw)
    method = api.channel.unary_unary(
        f"/{MODEL_INFER}", type(request).SerializeToString, message_class("inference.ModelInferResponse").FromString
    )
    try:
        answer: Any = method(request, timeout=PATIENCE_S)
    except grpc.RpcError as error:
        raise Refused(error.code().name, error.details()) from None
    assert (answer.id, answer.model_name) == (request.id, request.model_name) and len(answer.model_version) == 12
    return tensors(answer.outputs, answer.raw_output_contents)


def over_http(api: Api, asked: Asked, *, form: str = "flat") -> dict[str, np.ndarray]:
    return infer(api, f"/v2/models/{asked.model}/infer", *asked.document(form))


def infer(api: Api, path: str, document: Any, binary: bytes = b"") -> dict[str, np.ndarray]:
    """The outputs by name. All of what is behind the JSON belongs to one of them."""
    head = json.dumps(document).encode()
    headers = {JSON_SIZE: str(len(head))} if binary else {}
    response, content = api.post.send("POST", path, head + binary, **headers)
    size = response.headers.get(JSON_SIZE)
    answer, behind = json.loads(content[: size and int(size)]), content[int(size) :] if size else b""
    if response.status != 200:
        assert list(answer) == ["error"]
        raise Refused(_CODES[response.status], answer["error"])
    assert response.headers["Content-Type"] == ("application/octet-stream" if size else "application/json")
    assert answer.get("id") == document.get("id") and len(answer["model_version"]) == 12
    assert bool(behind) == document.get("parameters", {}).get("binary_data_output", False)
    found = {}
    for output in answer["outputs"]:
        if "data" in output:
            values = np.array(output["data"], _TYPES.get(output["datatype"], object))
        else:
            length = output["parameters"]["binary_data_size"]
            values, behind = _values(output["datatype"], behind[:length]), behind[length:]
        found[output["name"]] = values.reshape(output["shape"])
    assert behind == b""
    return found


BINARY: dict[str, Callable[[Api, Asked], dict[str, np.ndarray]]] = {
    "grpc, raw": over_grpc,
    "http, binary": partial(over_http, form="binary"),
}
FORMS = BINARY | {
    "grpc, typed": partial(over_grpc, raw=False),
    "http, flat": over_http,
    "http, nested": partial(over_http, form="nested"),
}
