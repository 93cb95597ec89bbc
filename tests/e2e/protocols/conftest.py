"""Servers that the tests of all protocols share. After each module nothing may be left in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection

import pytest
from posting import Poster
from serving import PATIENCE_S, Server
from tokenized_classifiers import IDENTITY, classifier_at

import fastqps

FLAGS = (
    "--device=cpu",
    "--dtype=float32",
    "--frontdoors=1",
    "--dispatchers=1",
    "--max-batch-items=8",
    "--max-running=8",
)


@contextmanager
def running(*models: str, flags: tuple[str, ...] = ()) -> Iterator[Server]:
    server = Server(*(f"--model={model}" for model in models), *FLAGS, *flags)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A classifier of three labels."""
    return classifier_at(tmp_path_factory.mktemp("labelled"), 3)


@pytest.fixture(scope="session")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cross-encoder whose checkpoint has no activation."""
    return classifier_at(tmp_path_factory.mktemp("ranker"), 1, **IDENTITY)


@pytest.fixture(scope="session")
def run_all(labelled: str, ranking: str) -> Callable[..., AbstractContextManager[Server]]:
    """Runs a server of all models with these flags."""
    models = ("minilm", "grammar", f"labelled={labelled}", f"ranker={ranking}")
    return lambda *flags: running(*models, flags=flags)


@pytest.fixture(scope="session")
def all_models(run_all: Callable[..., AbstractContextManager[Server]]) -> Iterator[Server]:
    with run_all() as server:
        yield server


@pytest.fixture(scope="session")
def only_minilm() -> Iterator[Server]:
    with running("minilm") as server:
        yield server


@pytest.fixture(scope="session")
def only_labelled(labelled: str) -> Iterator[Server]:
    with running(labelled) as server:
        yield server


@pytest.fixture(scope="session")
def only_ranker(ranking: str) -> Iterator[Server]:
    with running(f"ranker={ranking}") as server:
        yield server


@pytest.fixture(scope="module")
def server(all_models: Server) -> Iterator[Server]:
    """Of an embedder, a generator, a classifier and a cross-encoder."""
    yield all_models
    all_models.until_idle()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[fastqps.Client]:
    with fastqps.Client(server.address) as client:
        yield client


@pytest.fixture
def connection(server: Server) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(server.http, timeout=PATIENCE_S)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def post(server: Server) -> Iterator[Poster]:
    post = Poster(server)
    yield post
    post.close()
