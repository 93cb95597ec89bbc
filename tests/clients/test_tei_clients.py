"""tei-client over HTTP and gRPC, and cohere's clients for embed and rerank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from answers import check, check_ranks, check_texts, logits
from questions import DOCUMENTS, TEXT, TEXTS, run_script
from serving import Server
from tokenizers import Tokenizer

import fastqps
from fastqps.models.names import resolve

Run = Callable[[str], Any]


def test_tei_client_embeds(run: Run, client: fastqps.Client) -> None:
    (file,) = (resolve("wordllama")[1] / "tokenizers").glob("*.json")
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    for transport, found in run("tei_embed").items():
        assert found["kind"] == "embedding" and found["healthy"] and found["prompts"] == [], transport
        check(found["one"], client, normalize=True)
        check_texts(found["many"], client, normalize=True)
        assert found["tokens"] == [tokenizer.encode(TEXT).ids] * 2
        decoded = tokenizer.decode(found["tokens"][0])
        assert found["decoded"] == {"http": [decoded], "grpc": decoded}[transport]


def test_tei_client_reranks(ranking_server: Server) -> None:
    expected = logits(ranking_server.address)
    for transport, found in run_script("tei_rerank", ranking_server).items():
        assert found["kind"] == "reranker", transport
        for ranks in found["ranks"]:
            check_ranks([[rank["index"], rank["score"]] for rank in ranks], expected)
            assert [rank["text"] for rank in ranks] == [DOCUMENTS[rank["index"]] for rank in ranks]


def test_cohere_embeds(run: Run, client: fastqps.Client) -> None:
    found = run("cohere_embed")
    for version in ("v1", "v1_floats", "v2", "v2_async"):
        check_texts(found[version]["float"], client, normalize=True)
    vectors = np.stack([client.predict(text, normalize=True).embedding for text in TEXTS])
    signs = np.packbits(vectors > 0, axis=1).astype(int)
    small = np.rint(vectors * 127).astype(int)
    expected = {"int8": small, "uint8": small + 128, "binary": signs - 128, "ubinary": signs}
    for version in ("v1", "v2", "v2_async"):
        for name, numbers in expected.items():
            assert np.array_equal(found[version][name], numbers), (version, name)


def test_cohere_reranks(ranking_server: Server) -> None:
    scores = [float(1 / (1 + np.exp(-logit))) for logit in logits(ranking_server.address)]
    found = run_script("cohere_rerank", ranking_server)
    for version in ("v1", "v2", "v2_async"):
        check_ranks(found[version], scores)
    assert found["top"] == found["v2"][:2]
