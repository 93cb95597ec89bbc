"""The Open Inference Protocol over HTTP: every answer against this server's own ``Predict``, bit by bit."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import numpy as np
import pytest
from serving import Server

import fastqps

TEXTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "word " * 40, "x"]
IDS = [101, 7592, 102]
JSON_SIZE = "Inference-Header-Content-Length"
INFER = "/v2/models/minilm/infer"


class Http:
    """A response, its JSON and what is behind it."""

    def __init__(
        self, connection: HTTPConnection, verb: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        connection.request(verb, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        self.status, self.headers = response.status, response.headers
        size = response.headers.get(JSON_SIZE)
        end = len(content) if size is None else int(size)
        self.document: Any = json.loads(content[:end])
        self.binary = content[end:]

    def tensors(self) -> dict[str, np.ndarray]:
        """The outputs by name. All of what is behind the JSON belongs to one of them."""
        assert self.status == 200, self.document
        found, binary = {}, self.binary
        for output in self.document["outputs"]:
            kind = {"FP32": np.float32, "FP16": np.float16, "BYTES": object}[output["datatype"]]
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                values: Any = np.array(output["data"], kind)
            elif kind is object:
                values = np.array(list(texts_of(binary[:size])), object)
            else:
                values = np.frombuffer(binary[:size], kind)
            binary = binary[size or 0 :]
            found[output["name"]] = values.reshape(output["shape"])
        assert binary == b""
        return found


def texts_of(raw: bytes) -> Iterator[str]:
    while raw:
        size = struct.unpack_from("<I", raw)[0]
        yield raw[4 : 4 + size].decode()
        raw = raw[4 + size :]


def raw_texts(texts: list[str]) -> bytes:
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def tensor(name: str, datatype: str, shape: list[int], data: Any = None, size: int | None = None) -> dict[str, Any]:
    found = {"name": name, "datatype": datatype, "shape": shape}
    if data is not None:
        found["data"] = data
    if size is not None:
        found["parameters"] = {"binary_data_size": size}
    return found


def texts_input(texts: list[str]) -> dict[str, Any]:
    return tensor("text", "BYTES", [len(texts)], texts)


def post(connection: HTTPConnection, document: Any, binary: bytes = b"", path: str = INFER, **headers: str) -> Http:
    encoded = json.dumps(document).encode()
    if binary:
        headers[JSON_SIZE] = str(len(encoded))
    return Http(connection, "POST", path, encoded + binary, headers)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("column", [True, False], ids=["n_1", "n"])
def test_texts(connection: HTTPConnection, client: fastqps.Client, binary: bool, column: bool) -> None:
    for text in TEXTS:
        shape = [1, 1] if column else [1]
        raw = raw_texts([text]) if binary else b""
        data = None if binary else [[text]] if column else [text]
        request = {"id": "an id", "inputs": [tensor("text", "BYTES", shape, data, len(raw) if binary else None)]}
        response = post(connection, {**request, "parameters": {"binary_data_output": binary}}, raw)
        assert (response.document["id"], response.document["model_name"]) == ("an id", "minilm")
        assert len(response.document["model_version"]) == 12
        assert bool(response.binary) == binary
        kind = "application/octet-stream" if binary else "application/json"
        assert response.headers["Content-Type"] == kind
        assert np.array_equal(response.tensors()["embedding"][0], client.predict(text).embedding)


def test_many_texts_keep_their_order(connection: HTTPConnection, client: fastqps.Client) -> None:
    texts = [f"number {i}" for i in range(300)]
    found = post(connection, {"inputs": [texts_input(texts)]}).tensors()["embedding"]
    again = post(connection, {"inputs": [texts_input(texts[::-1])]}).tensors()["embedding"]
    assert found.shape == (300, 384) and np.abs(found - again[::-1]).max() <= 1e-5
    assert np.abs(found[7] - client.predict(texts[7]).embedding).max() <= 1e-5


@pytest.mark.parametrize("form", ["flat", "nested", "binary"])
@pytest.mark.parametrize("datatype", ["INT64", "INT32"])
def test_ids_and_their_mask(connection: HTTPConnection, client: fastqps.Client, form: str, datatype: str) -> None:
    raw, inputs = b"", []
    for name, row in (("input_ids", [101, 7592, 0, 102]), ("attention_mask", [1, 1, 0, 1])):
        own = np.array(row, datatype.lower()).tobytes() if form == "binary" else b""
        data = {"flat": row, "nested": [row], "binary": None}[form]
        inputs.append(tensor(name, datatype, [1, 4], data, len(own) or None))
        raw += own
    found = post(connection, {"inputs": inputs}, raw).tensors()["embedding"]
    assert np.array_equal(found[0], client.predict(IDS).embedding)


def test_pairs_and_options(connection: HTTPConnection, client: fastqps.Client) -> None:
    inputs = [texts_input(["a b"]), {**texts_input(["c d"]), "name": "text_pair"}]
    options = {"dimensions": 64, "normalize": False, "priority": 1, "timeout": 20_000_000}
    found = post(connection, {"inputs": inputs, "parameters": options}).tensors()["embedding"]
    expected = client.predict(("a b", "c d"), dimensions=64, normalize=False).embedding
    assert np.array_equal(found[0], expected)
    half = {**options, "datatype": "FP16", "binary_data_output": True}
    found = post(connection, {"inputs": inputs, "parameters": half}).tensors()["embedding"]
    assert found.dtype == np.float16 and np.array_equal(found[0], expected.astype(np.float16))


def test_labels_in_both_forms(connection: HTTPConnection, client: fastqps.Client) -> None:
    expected = [client.predict(text, model="labelled").labels for text in TEXTS]
    for outputs in ([], ["scores"], ["label"], ["scores", "label"]):
        for binary in ([], ["scores"], ["label"], ["scores", "label"]):
            asked = [{"name": name, "parameters": {"binary_data": name in binary}} for name in outputs]
            document = {"inputs": [texts_input(TEXTS)], "outputs": asked}
            response = post(connection, document, path="/v2/models/labelled/infer")
            found = response.tensors()
            assert list(found) == (outputs or ["scores", "label"])
            assert bool(response.binary) == bool(set(binary) & set(outputs))
            for i, labels in enumerate(expected):
                if "label" in found:
                    assert found["label"][i] == labels[0].name
                for label in labels if "scores" in found else ():
                    assert found["scores"][i][label.index] == pytest.approx(label.score, abs=1e-6)


def test_generation(connection: HTTPConnection, client: fastqps.Client) -> None:
    texts = ["She have a apple.", "I has two dog."]
    document = {"inputs": [texts_input(texts)], "parameters": {"max_tokens": 20}}
    for binary in (True, False):
        document["parameters"]["binary_data_output"] = binary
        found = post(connection, document, path="/v2/models/grammar/infer").tensors()["text"]
        assert list(found) == [client.generate(text, model="grammar", max_tokens=20).text for text in texts]


def test_versions_in_the_path(connection: HTTPConnection, client: fastqps.Client) -> None:
    version = Http(connection, "GET", "/v2/models/minilm").document["versions"][0]
    document = {"inputs": [texts_input(["a"])]}
    found = post(connection, document, path=f"/v2/models/minilm/versions/{version}/infer").tensors()
    assert np.array_equal(found["embedding"][0], client.predict("a").embedding)
    refused = post(connection, document, path="/v2/models/minilm/versions/1/infer")
    assert refused.status == 400 and refused.document["error"].startswith("model_version: '1' is not served")


def test_compressed_requests(connection: HTTPConnection, client: fastqps.Client) -> None:
    raw = raw_texts(["a text"])
    encoded = json.dumps({"inputs": [tensor("text", "BYTES", [1], None, len(raw))]}).encode()
    headers = {"Content-Encoding": "gzip", JSON_SIZE: str(len(encoded))}
    found = Http(connection, "POST", INFER, gzip.compress(encoded + raw), headers).tensors()
    assert np.array_equal(found["embedding"][0], client.predict("a text").embedding)


REFUSED: dict[str, tuple[Any, int, str]] = {
    "no json": ("{", 400, "the body is not valid JSON"),
    "no input": ({}, 400, "inputs: must hold either text or input_ids"),
    "name": ({"inputs": [{**texts_input(["a"]), "name": "words"}]}, 400, "inputs: 'words' is not an input"),
    "long name": ({"inputs": [{**texts_input(["a"]), "name": "東" * 50}]}, 400, "is not an input"),
    "count": ({"inputs": [tensor("text", "BYTES", [3], ["a"])]}, 400, "text: 1 elements, but its shape says 3"),
    "size": ({"inputs": [tensor("text", "BYTES", [1], None, 9)]}, 400, "inputs: binary_data_size 9, but 0 bytes"),
    "too long": ({"inputs": [texts_input(["b " * 300])]}, 400, "text: 302 tokens, at most 256"),
    "one too long": ({"inputs": [texts_input(["a", "b " * 300])]}, 400, "cut (item 1)"),
    "number": ({"inputs": [tensor("text", "BYTES", [2], ["a", 1])]}, 400, "element 1 of the data of a BYTES tensor"),
    "too many": ({"inputs": [texts_input(["a"] * 2049)]}, 400, "inputs: 2049 items, at most 2048"),
    "id": ({"inputs": [tensor("input_ids", "INT64", [1, 1], [40_000])]}, 400, "input_ids: id 40000, the vocabulary"),
    "output": ({"inputs": [texts_input(["a"])], "outputs": [{"name": "text"}]}, 400, "'minilm' has no output 'text'"),
    "fp16": ({"inputs": [texts_input(["a"])], "parameters": {"datatype": "FP16"}}, 400, "FP16 has no form in JSON"),
    "generates": ({"inputs": [texts_input(["a"])], "parameters": {"max_tokens": 5}}, 400, "does not generate text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(connection: HTTPConnection, name: str) -> None:
    document, status, message = REFUSED[name]
    body = document if isinstance(document, str) else json.dumps(document)
    response = Http(connection, "POST", INFER, body.encode())
    assert response.status == status and list(response.document) == ["error"]
    assert message in response.document["error"]
    assert post(connection, {"inputs": [texts_input(["a"])]}).tensors()["embedding"].shape == (1, 384)


@pytest.mark.parametrize("path", ["/v2/models/none", "/v2/models/%ff", "/v2/models/minilm/versions/1"])
def test_models_that_are_not_served(connection: HTTPConnection, path: str) -> None:
    for end in ("", "/ready", "/config", "/stats"):
        response = Http(connection, "GET", path + end)
        assert response.status == 404 and "is not served" in response.document["error"]
    if "versions" not in path:
        response = post(connection, {"inputs": [texts_input(["a"])]}, path=path + "/infer")
        assert response.status == 404 and "is not served" in response.document["error"]


def test_health_and_metadata(connection: HTTPConnection) -> None:
    def get(path: str) -> Any:
        response = Http(connection, "GET", path)
        assert response.status == 200, response.document
        return response.document

    assert get("/v2/health/live") == {"live": True} and get("/v2/health/ready") == {"ready": True}
    server = get("/v2")
    assert server["name"] == "fastqps" and "binary_tensor_data" in server["extensions"]
    metadata = get("/v2/models/labelled")
    assert metadata["inputs"][0] == {"name": "text", "datatype": "BYTES", "shape": [-1, 1]}
    assert metadata["outputs"] == [
        {"name": "scores", "datatype": "FP32", "shape": [-1, 3]},
        {"name": "label", "datatype": "BYTES", "shape": [-1]},
    ]
    version = metadata["versions"][0]
    assert get(f"/v2/models/labelled/versions/{version}") == metadata
    assert get(f"/v2/models/labelled/versions/{version}/ready") == {"name": "labelled", "ready": True}
    config = get("/v2/models/minilm/config")
    assert (config["max_batch_size"], config["output"]) == (
        2048,
        [{"name": "embedding", "data_type": "TYPE_FP32", "dims": [384]}],
    )
    index = Http(connection, "POST", "/v2/repository/index", b'{"ready": true}').document
    assert [(each["name"], each["state"]) for each in index] == [
        (name, "READY") for name in ("minilm", "grammar", "labelled", "ranker")
    ]
    assert Http(connection, "POST", "/v2/repository/index").document == index
    for body in (b"[]", b"{", b'{"ready": 1}', b"[" * 5000):
        assert Http(connection, "POST", "/v2/repository/index", body).status == 400


def test_statistics_count_items(connection: HTTPConnection) -> None:
    def counts() -> dict[str, int]:
        document = Http(connection, "GET", "/v2/models/stats").document
        return {each["name"]: each["inference_count"] for each in document["model_stats"]}

    before = counts()
    post(connection, {"inputs": [texts_input(TEXTS)]}, path="/v2/models/labelled/infer")
    assert counts() == {**before, "labelled": before["labelled"] + len(TEXTS)}
    own = Http(connection, "GET", "/v2/models/labelled/stats").document["model_stats"]
    version = Http(connection, "GET", "/v2/models/labelled").document["versions"][0]
    assert [int(each["version"]) for each in own] == [int(version, 16)]
    assert [each["name"] for each in own] == ["labelled"] and own[0]["inference_stats"]["success"]["ns"] > 0


def test_what_triton_has_and_this_server_has_not(connection: HTTPConnection) -> None:
    response = Http(connection, "POST", "/v2/repository/models/minilm/load", b"{}")
    assert response.status == 501
    assert response.document["error"].startswith("RepositoryModelLoad is not served here: models are loaded at start")
    for verb, path in [
        ("POST", "logging"),
        ("POST", "trace/setting"),
        ("GET", "models/minilm/trace/setting"),
        ("GET", "cudasharedmemory/region/a/status"),
        ("POST", "systemsharedmemory/region/a/unregister"),
    ]:
        assert Http(connection, verb, f"/v2/{path}", b"{}").status == 501
    assert Http(connection, "POST", "/v2/repository/index", b'{"ready":null}').status == 200
    assert Http(connection, "GET", "/v2/nothing").status == 404
    assert Http(connection, "GET", INFER).status == 405


def test_calls_are_counted(server: Server, connection: HTTPConnection) -> None:
    before = server.metrics().get("fastqps_requests_total{OK,ModelInfer,minilm}", 0)
    post(connection, {"inputs": [texts_input(["a"])]})
    assert server.metrics()["fastqps_requests_total{OK,ModelInfer,minilm}"] == before + 1
