"""INT8 answers of a model that does not normalise: refused on every path unless the request normalises them.

``POST /predict`` and ``Engine`` have no INT8.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from sentence_files import SPELLINGS, write, write_base, write_dense, write_modules
from serving import PATIENCE_S, Server

import fastqps
from fastqps.api.request import Requests
from fastqps.errors import CallError, InvalidArgument
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

TEXT = "a b c d"
REFUSED = "output.dtype: DTYPE_INT8 (3) can hold values from -1 to 1 only"
Answer = dict[str, Any]
OutputPath = Callable[[Server, Answer], np.ndarray]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its embeddings have values beyond 1, and no Normalize follows its projection."""
    path = tmp_path_factory.mktemp("wide")
    write_base(path)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense"}
    write_modules(path, [(SPELLINGS[kind][0], folder) for kind, folder in kinds.items()])
    write(path / "1_Pooling/config.json", {"word_embedding_dimension": 32})
    write_dense(path / "2_Dense", activation_function="torch.nn.modules.linear.Identity")
    return path


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], model: Path) -> Server:
    return module_server(f"--model=wide={model}", "--device=cpu", "--dtype=float32")


@pytest.fixture(scope="module")
def expected(model: Path) -> np.ndarray:
    found = fastqps.Engine(str(model), dtype="float32").embed([TEXT])[0]
    assert np.abs(found).max() > 1.5  # else nothing would clip
    return found


def _embedding(answer: pb.PredictResponse) -> np.ndarray:
    if answer.HasField("status"):
        raise InvalidArgument(answer.status.message)
    return np.frombuffer(answer.embedding.raw, np.int8).astype(np.float32) / 127


def _stub(ask: Callable[[Any, pb.PredictRequest], pb.PredictResponse]) -> OutputPath:
    def call(server: Server, options: Answer) -> np.ndarray:
        with grpc.insecure_channel(server.address) as channel:
            try:
                return _embedding(ask(predict_pb2_grpc.PredictServiceStub(channel), Requests(options).message(TEXT)))
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
                raise InvalidArgument(error.details()) from None

    return call


def _client(ask: Callable[[fastqps.Client, Answer], Any]) -> OutputPath:
    def call(server: Server, options: Answer) -> np.ndarray:
        with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
            return _vector(ask(client, options))

    return call


def _async_client(ask: Callable[[fastqps.AsyncClient, Answer], Any]) -> OutputPath:
    async def run(server: Server, options: Answer) -> np.ndarray:
        async with fastqps.AsyncClient(server.address, timeout_s=PATIENCE_S) as client:
            return _vector(await ask(client, options))

    return lambda server, options: asyncio.run(run(server, options))


def _vector(found: Any) -> np.ndarray:
    """Of a prediction, a vector, or one of them alone in a list. An item that failed raises its error."""
    item = found[0] if isinstance(found, list) else found
    if error := getattr(item, "error", None):
        raise error
    return np.asarray(getattr(item, "embedding", item)).reshape(-1)


async def _first_of_stream(client: fastqps.AsyncClient, options: Answer) -> Any:
    async def texts() -> AsyncIterator[str]:
        yield TEXT

    return [item async for item in client.predict_stream(texts(), **options)]


PATHS: dict[str, OutputPath] = {
    "Predict": _stub(lambda stub, asked: stub.Predict(asked, timeout=PATIENCE_S)),
    "PredictBatch": _stub(
        lambda stub, asked: stub.PredictBatch(pb.PredictBatchRequest(items=[asked]), timeout=PATIENCE_S).items[0]
    ),
    "PredictStream": _stub(lambda stub, asked: next(stub.PredictStream(iter([asked]), timeout=PATIENCE_S))),
    "Client.predict": _client(lambda client, options: client.predict(TEXT, **options)),
    "Client.predict_batch": _client(lambda client, options: client.predict_batch([TEXT], **options)),
    "Client.predict_stream": _client(lambda client, options: list(client.predict_stream([TEXT], **options))),
    "Client.embed": _client(lambda client, options: client.embed([TEXT], **options)[0]),
    "AsyncClient.predict": _async_client(lambda client, options: client.predict(TEXT, **options)),
    "AsyncClient.predict_batch": _async_client(lambda client, options: client.predict_batch([TEXT], **options)),
    "AsyncClient.predict_stream": _async_client(_first_of_stream),
    "AsyncClient.embed": _async_client(lambda client, options: client.embed([TEXT], **options)),
}


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"dimensions": 3}], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_a_vector_that_is_not_normalized_is_refused(server: Server, path: str, options: Answer) -> None:
    with pytest.raises(CallError) as caught:
        PATHS[path](server, {"dtype": "int8", **options})
    assert REFUSED in str(caught.value) and "set normalize" in str(caught.value)


@pytest.mark.parametrize("dimensions", [0, 3])
@pytest.mark.parametrize("path", PATHS)
def test_a_normalized_vector_is_within_half_a_step(
    server: Server, expected: np.ndarray, path: str, dimensions: int
) -> None:
    cut = expected[: dimensions or None]
    options = {"dimensions": dimensions} if dimensions else {}
    found = PATHS[path](server, {"dtype": "int8", "normalize": True, **options})
    np.testing.assert_allclose(found, cut / np.linalg.norm(cut), atol=0.501 / 127)


def test_the_engine_gives_whole_values(server: Server, expected: np.ndarray) -> None:
    """It has no INT8, and its values are those of the server's float32, beyond 1 or not."""
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        np.testing.assert_allclose(client.embed([TEXT])[0], expected, atol=1e-5)
