"""The Open Inference Protocol over gRPC: every answer against this server's own ``Predict``, bit by bit."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from serving import PATIENCE_S, Server, until

from fastqps.api.reflection import message_class
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

TEXTS = ["A man is eating food.", "Zürich, 東京", "word " * 40, "x"]
REQUEST, RESPONSE = message_class("inference.ModelInferRequest"), message_class("inference.ModelInferResponse")


@pytest.fixture(scope="module")
def channel(server: Server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel: grpc.Channel) -> Any:
    return predict_pb2_grpc.PredictServiceStub(channel)


def call(channel: grpc.Channel, method_name: str, /, **fields: Any) -> Any:
    """One call of a unary method."""
    request = message_class(f"inference.{method_name}Request")
    response = message_class(f"inference.{method_name}Response")
    method = channel.unary_unary(
        f"/inference.GRPCInferenceService/{method_name}",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    return method(request(**fields), timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def infer(channel: grpc.Channel) -> Callable[..., Any]:
    method = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=REQUEST.SerializeToString,
        response_deserializer=RESPONSE.FromString,
    )
    return lambda request: method(request, timeout=PATIENCE_S)


def asked(model: str = "minilm", **fields: Any) -> Any:
    return REQUEST(model_name=model, **fields)


def add_texts(request: Any, texts: list[str], name: str = "text", *, raw: bool = True, column: bool = False) -> Any:
    shape = [len(texts), 1] if column else [len(texts)]
    tensor = request.inputs.add(name=name, datatype="BYTES", shape=shape)
    encoded = [text.encode() for text in texts]
    if raw:
        request.raw_input_contents.append(b"".join(struct.pack("<I", len(text)) + text for text in encoded))
    else:
        tensor.contents.bytes_contents.extend(encoded)
    return request


def add_ids(request: Any, rows: Any, name: str = "input_ids", datatype: str = "INT64", *, raw: bool = True) -> Any:
    values = np.array(rows, dtype=datatype.lower())
    tensor = request.inputs.add(name=name, datatype=datatype, shape=list(values.shape))
    if raw:
        request.raw_input_contents.append(values.tobytes())
    else:
        field = tensor.contents.int64_contents if datatype == "INT64" else tensor.contents.int_contents
        field.extend(int(value) for value in values.ravel())
    return request


def tensors(response: Any) -> dict[str, np.ndarray]:
    """The outputs by name, out of the raw contents."""
    found: dict[str, np.ndarray] = {}
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        if output.datatype == "BYTES":
            texts = []
            while raw:
                size = struct.unpack_from("<I", raw)[0]
                texts.append(raw[4 : 4 + size].decode())
                raw = raw[4 + size :]
            found[output.name] = np.array(texts, dtype=object).reshape(list(output.shape))
        else:
            kind = {"FP32": np.float32, "FP16": np.float16}[output.datatype]
            found[output.name] = np.frombuffer(raw, kind).reshape(list(output.shape))
    return found


def embedding_of(stub: Any, text: str, **options: Any) -> np.ndarray:
    response = stub.Predict(pb.PredictRequest(text=text, output=pb.OutputOptions(**options)), timeout=PATIENCE_S)
    return np.array(response.embedding.values, np.float32)


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("column", [True, False], ids=["n_1", "n"])
def test_texts(infer: Any, stub: Any, raw: bool, column: bool) -> None:
    for n in (1, 4):
        response = infer(add_texts(asked(id=f"id {n}"), TEXTS[:n], raw=raw, column=column))
        assert (response.id, response.model_name) == (f"id {n}", "minilm") and len(response.model_version) == 12
        found = tensors(response)["embedding"]
        assert found.shape == (n, 384)
        for row, text in zip(found, TEXTS, strict=False):
            assert np.abs(row - embedding_of(stub, text)).max() <= 1e-5


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("datatype", ["INT64", "INT32"])
def test_ids_and_their_mask(infer: Any, stub: Any, raw: bool, datatype: str) -> None:
    expected = stub.Predict(pb.PredictRequest(token_ids={"ids": [101, 7592, 102]}), timeout=PATIENCE_S).embedding.values
    request = add_ids(asked(), [[101, 7592, 102, 0], [0, 101, 7592, 102]], datatype=datatype, raw=raw)
    add_ids(request, [[1, 1, 1, 0], [0, 1, 1, 1]], "attention_mask", datatype, raw=raw)
    found = tensors(infer(request))["embedding"]
    assert np.abs(found - np.array(expected)).max() <= 1e-5
    alone = tensors(infer(add_ids(asked(), [[101, 7592, 102]], datatype=datatype, raw=raw)))["embedding"]
    assert np.array_equal(alone[0], np.array(expected, np.float32))


def test_pairs(infer: Any, stub: Any) -> None:
    request = add_texts(add_texts(asked(), ["a b"]), ["c d"], "text_pair")
    expected = stub.Predict(pb.PredictRequest(pair={"first": "a b", "second": "c d"}), timeout=PATIENCE_S)
    assert np.array_equal(tensors(infer(request))["embedding"][0], np.array(expected.embedding.values, np.float32))


def test_options(infer: Any, stub: Any) -> None:
    request = add_texts(asked(), ["some text"])
    request.parameters["dimensions"].int64_param = 64
    request.parameters["normalize"].bool_param = False
    request.parameters["priority"].uint64_param = 1
    request.parameters["timeout"].int64_param = 20_000_000
    expected = embedding_of(stub, "some text", dimensions=64, normalize=False)
    assert np.array_equal(tensors(infer(request))["embedding"][0], expected)
    request.parameters["datatype"].string_param = "FP16"
    found = tensors(infer(request))["embedding"]
    assert found.dtype == np.float16 and np.array_equal(found[0], expected.astype(np.float16))


def test_labels(infer: Any, stub: Any) -> None:
    found = tensors(infer(add_texts(asked("labelled"), TEXTS)))
    for row, label, text in zip(found["scores"], found["label"], TEXTS, strict=True):
        response = stub.Predict(pb.PredictRequest(model="labelled", text=text), timeout=PATIENCE_S)
        labels = response.classification.labels
        assert label == labels[0].name
        for each in labels:
            assert row[each.index] == pytest.approx(each.score, abs=1e-6)
    request = add_texts(asked("labelled"), TEXTS)
    request.outputs.add(name="label")
    assert list(tensors(infer(request))) == ["label"]


def test_generation(infer: Any, stub: Any) -> None:
    texts = ["She have a apple.", "I has two dog."]
    request = add_texts(asked("grammar"), texts)
    request.parameters["max_tokens"].int64_param = 20
    found = tensors(infer(request))["text"]
    for text, answer in zip(texts, found, strict=True):
        response = stub.Predict(
            pb.PredictRequest(model="grammar", text=text, generate={"max_tokens": 20}), timeout=PATIENCE_S
        )
        assert answer == response.generation.text
    request.parameters["stop"].string_param = " an"
    assert tensors(infer(request))["text"][0] == "She has"


def test_a_message_of_many_items_keeps_their_order(infer: Any) -> None:
    texts = [f"number {i}" for i in range(300)]
    found = tensors(infer(add_texts(asked("labelled"), texts)))["scores"]
    again = tensors(infer(add_texts(asked("labelled"), texts[::-1])))["scores"]
    assert len(found) == 300 and np.abs(found - again[::-1]).max() <= 1e-5


def without_contents() -> Any:
    request = asked()
    request.inputs.add(name="text", datatype="BYTES", shape=[1])
    return request


def with_parameter(name: str, **value: Any) -> Any:
    request = add_texts(asked(), ["a"])
    request.parameters[name].CopyFrom(message_class("inference.InferParameter")(**value))
    return request


def with_output(name: str) -> Any:
    request = add_texts(asked(), ["a"])
    request.outputs.add(name=name)
    return request


def with_shape(shape: list[int]) -> Any:
    request = add_texts(asked(), ["a", "b"])
    request.inputs[0].shape[:] = shape
    return request


def with_raw(raw: bytes) -> Any:
    request = add_texts(asked(), ["a"])
    request.raw_input_contents[0] = raw
    return request


INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
REFUSED = {
    "model": (lambda: add_texts(asked("none"), ["a"]), NOT_FOUND, "model_name: 'none' is not served here"),
    "version": (lambda: add_texts(asked(model_version="1"), ["a"]), INVALID, "model_version: '1' is not served"),
    "no input": (lambda: asked(), INVALID, "inputs: must hold either text or input_ids"),
    "name": (lambda: add_texts(asked(), ["a"], "words"), INVALID, "inputs: 'words' is not an input"),
    "twice": (lambda: add_texts(add_texts(asked(), ["a"]), ["b"]), INVALID, "inputs: 'text' is given twice"),
    "both": (lambda: add_ids(add_texts(asked(), ["a"]), [[5]]), INVALID, "inputs: must hold either text or input_ids"),
    "pair alone": (lambda: add_texts(asked(), ["a"], "text_pair"), INVALID, "inputs: must hold either"),
    "datatype": (lambda: add_ids(asked(), [[1]], "text"), INVALID, "text: datatype 'INT64', must be BYTES"),
    "floats": (lambda: add_texts(asked(), ["a"], "input_ids"), INVALID, "input_ids: datatype 'BYTES'"),
    "no contents": (without_contents, INVALID, "text: 0 elements, but its shape says 1"),
    "count": (lambda: with_shape([3]), INVALID, "text: 2 elements, but its shape says 3"),
    "shape": (lambda: with_shape([1, 2]), INVALID, "text: 2 dimensions, must have the shape [n] or [n, 1]"),
    "huge shape": (lambda: with_shape([2**62]), INVALID, "text: 2 elements, but its shape says"),
    "negative shape": (lambda: with_shape([-1]), INVALID, "text: 2 elements, but its shape says"),
    "cut raw": (lambda: with_raw(b"\5\0\0\0abc"), INVALID, "raw_input_contents: those of input 0 end inside"),
    "not UTF-8": (lambda: with_raw(b"\2\0\0\0\xff\xfe"), INVALID, "text: not valid UTF-8"),
    "negative id": (lambda: add_ids(asked(), [[-1]]), INVALID, "input_ids: id -1"),
    "large id": (lambda: add_ids(asked(), [[40_000]]), INVALID, "input_ids: id 40000, the vocabulary has 30522"),
    "too long": (lambda: add_texts(asked(), ["a", "b " * 300]), INVALID, "text: 302 tokens, at most 256"),
    "too many": (lambda: add_texts(asked(), ["a"] * 2049), INVALID, "inputs: 2049 items, at most 2048"),
    "parameter": (lambda: with_parameter("dimension", int64_param=1), INVALID, "parameters: 'dimension' is not a"),
    "kind": (lambda: with_parameter("normalize", int64_param=1), INVALID, "parameters: normalize must be a bool"),
    "range": (lambda: with_parameter("dimensions", int64_param=-1), INVALID, "parameters: dimensions must be an int"),
    "too many dimensions": (lambda: with_parameter("dimensions", int64_param=385), INVALID, "dimensions: 385"),
    "generates": (lambda: with_parameter("max_tokens", int64_param=5), INVALID, "does not generate text"),
    "output": (lambda: with_output("logits"), INVALID, "outputs: 'logits' is not an output"),
    "other output": (lambda: with_output("text"), INVALID, "outputs: the model 'minilm' has no output 'text'"),
    "id": (lambda: add_texts(asked(id="x" * 1025), ["a"]), INVALID, "id: 1025 bytes, at most 1024"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(infer: Any, name: str) -> None:
    make, code, message = REFUSED[name]
    with pytest.raises(grpc.RpcError) as refused:
        infer(make())
    assert (refused.value.code(), message in refused.value.details()) == (code, True), refused.value.details()
    assert tensors(infer(add_texts(asked(), ["a"])))["embedding"].shape == (1, 384)


def test_readiness_and_metadata(channel: grpc.Channel) -> None:
    assert call(channel, "ServerLive").live and call(channel, "ServerReady").ready
    version = call(channel, "ModelMetadata", name="minilm").versions[0]
    assert call(channel, "ModelReady", name="minilm", version=version).ready
    assert not call(channel, "ModelReady", name="minilm", version="1").ready
    assert not call(channel, "ModelReady", name="none").ready, "as in Triton"
    assert call(channel, "ServerMetadata").name == "fastqps"
    metadata = call(channel, "ModelMetadata", name="labelled")
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.outputs] == [
        ("scores", "FP32", [-1, 3]),
        ("label", "BYTES", [-1]),
    ]
    config = call(channel, "ModelConfig", name="minilm").config
    assert [(each.name, list(each.dims)) for each in config.output] == [("embedding", [384])]
    index = call(channel, "RepositoryIndex", ready=True).models
    assert [(each.name, each.state) for each in index] == [
        (n, "READY") for n in ("minilm", "grammar", "labelled", "ranker")
    ]


def test_each_duration_of_the_statistics_belongs_to_its_count(channel: grpc.Channel, infer: Any) -> None:
    """Calls of many items, good and bad: ``success`` and ``fail`` count calls, the rest items."""

    def look() -> Any:
        (stats,) = call(channel, "ModelStatistics", name="labelled").model_stats
        return stats

    def calls() -> None:
        for _ in range(3):
            infer(add_texts(asked("labelled"), ["word " * 40] * 50))
        with pytest.raises(grpc.RpcError):
            infer(add_texts(asked("labelled"), ["word " * 4000, *TEXTS]))

    began_ms = time.time_ns() // 1_000_000
    before = look()
    calls()
    counted = before.inference_stats.compute_output.count + 150
    until(lambda: look().inference_stats.compute_output.count >= counted, "the dispatchers have counted the items")
    after = look()
    then, now = before.inference_stats, after.inference_stats
    assert 150 <= after.inference_count - before.inference_count <= 150 + len(TEXTS)
    assert (now.success.count - then.success.count, now.fail.count - then.fail.count) == (3, 1)
    means = {}
    for name in ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output"):
        old, new = getattr(then, name), getattr(now, name)
        if name not in ("success", "fail"):
            assert 150 <= new.count - old.count <= 150 + len(TEXTS)
        means[name] = (new.ns - old.ns) / (new.count - old.count)
    assert means["success"] > means["queue"] + sum(means[name] for name in means if name.startswith("compute"))
    assert means["fail"] > 0
    assert began_ms - 1 <= after.last_inference <= time.time_ns() // 1_000_000 + 1


@pytest.mark.parametrize("name", ["ModelMetadata", "ModelConfig", "ModelStatistics"])
def test_unknown_models_and_versions(channel: grpc.Channel, name: str) -> None:
    for fields, message in (
        ({"name": "none"}, "name: 'none' is not served here; served: 'minilm', 'grammar', 'labelled', 'ranker'"),
        ({"name": "minilm", "version": "1"}, "version: '1' is not served"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call(channel, name, **fields)
        assert refused.value.code() == NOT_FOUND and message in refused.value.details()


def test_what_triton_has_and_this_server_has_not(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad")(b"", timeout=PATIENCE_S)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "RepositoryModelLoad is not served here" in refused.value.details()


def test_calls_are_counted(server: Server, infer: Any) -> None:
    infer(add_texts(asked(), ["a"]))
    assert server.metrics()["fastqps_requests_total{OK,ModelInfer,minilm}"] >= 1


def test_the_models_config_is_written_for_tritons_clients(channel: grpc.Channel) -> None:
    config = call(channel, "ModelConfig", name="grammar").config
    assert config.max_batch_size == 2048 and config.backend == "fastqps"
    assert config.model_transaction_policy.decoupled
    assert not call(channel, "ModelConfig", name="minilm").config.model_transaction_policy.decoupled
    assert {each.name for each in config.input} == {"text", "input_ids", "attention_mask"}
