"""The server that the tests of all protocols share, and two of the null device for what other first models change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from apis import Api, reaching
from serving import Server
from tokenized_classifiers import IDENTITY, classifier_at

FLAGS = ("--frontdoors=1", "--dispatchers=1", "--max-batch-items=8", "--max-running=8")


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A classifier of three labels."""
    return classifier_at(tmp_path_factory.mktemp("labelled"), 3)


@pytest.fixture(scope="session")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cross-encoder whose checkpoint has no activation."""
    return classifier_at(tmp_path_factory.mktemp("ranker"), 1, **IDENTITY)


@pytest.fixture(scope="session")
def run_all(labelled: str, ranking: str, pooled_server: Callable[..., Server]) -> Callable[..., Server]:
    """The server with these flags of an embedder, a generator, a classifier and a cross-encoder."""
    models = ("--model=minilm", "--model=grammar", f"--model=labelled={labelled}", f"--model=ranker={ranking}")
    return lambda *flags: pooled_server(*models, *FLAGS, *flags)


@pytest.fixture(scope="module")
def every_model(run_all: Callable[..., Server]) -> Iterator[Api]:
    """On the CPU."""
    yield from reaching(run_all("--device=cpu", "--dtype=float32"))


@pytest.fixture(scope="module")
def api(every_model: Api) -> Api:
    return every_model


@pytest.fixture(scope="module")
def only_labelled(labelled: str, pooled_server: Callable[..., Server]) -> Iterator[Api]:
    yield from reaching(pooled_server(f"--model={labelled}", "--predict-route=/predict", *FLAGS))


@pytest.fixture(scope="module")
def only_ranker(ranking: str, pooled_server: Callable[..., Server]) -> Iterator[Api]:
    routes = [f"--{name}-route=/v1/endpoints/1/deployedModels/2:predict" for name in ("predict", "health")]
    yield from reaching(pooled_server(f"--model=ranker={ranking}", *routes, *FLAGS))
