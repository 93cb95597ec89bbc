"""INT8 answers of a model that does not normalise: refused unless the request normalises them.

``Engine`` has no INT8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_files import SPELLINGS, write, write_base, write_dense, write_modules
from serving import PATIENCE_S, Server

import fastqps
from fastqps.errors import CallError

TEXT = "a b c d"
REFUSED = "output.dtype: DTYPE_INT8 (3) and DTYPE_UINT8 (4) can hold values from -1 to 1 only"


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
def expected(model: Path) -> np.ndarray:
    found = fastqps.Engine(str(model), dtype="float32").embed([TEXT])[0]
    assert np.abs(found).max() > 1.5  # else nothing would clip
    return found


@pytest.fixture(scope="module")
def client(module_server: Callable[..., Server], model: Path) -> Iterator[fastqps.Client]:
    server = module_server(f"--model=wide={model}", "--device=cpu", "--dtype=float32")
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"dimensions": 3}], ids=str)
def test_a_vector_that_is_not_normalized_is_refused(client: fastqps.Client, options: dict[str, Any]) -> None:
    def refuses(error: CallError) -> bool:
        return REFUSED in str(error) and "set normalize" in str(error)

    options = {"dtype": "int8", **options}
    for ask in (lambda: client.predict(TEXT, **options), lambda: client.embed([TEXT], **options)):
        with pytest.raises(CallError) as caught:
            ask()
        assert refuses(caught.value)
    for found in (*client.predict_batch([TEXT], **options), *client.predict_stream([TEXT], **options)):
        assert isinstance(found, fastqps.PredictionError) and refuses(found.error)


@pytest.mark.parametrize("dimensions", [0, 3])
def test_a_normalized_vector_is_within_half_a_step(
    client: fastqps.Client, expected: np.ndarray, dimensions: int
) -> None:
    cut = expected[: dimensions or None]
    options: dict[str, Any] = {"dtype": "int8", "normalize": True} | ({"dimensions": dimensions} if dimensions else {})
    (streamed,) = client.predict_stream([TEXT], **options)
    for found in (client.predict(TEXT, **options).embedding, client.embed([TEXT], **options)[0], streamed.embedding):
        np.testing.assert_allclose(found, cut / np.linalg.norm(cut), atol=0.501 / 127)


def test_the_engine_gives_whole_values(client: fastqps.Client, expected: np.ndarray) -> None:
    """It has no INT8, and its values are those of the server's float32, beyond 1 or not."""
    np.testing.assert_allclose(client.embed([TEXT])[0], expected, atol=1e-5)
