"""Texts over the byte limit of a model: cut as its tokenizer would cut them, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from checkpoints import write_checkpoint
from serving import Server
from word_files import write_words

from fastqps import Client, Engine
from fastqps.errors import InvalidArgument

BYTES_MAX = 1 << 16
TOKENS_MAX = 64
END = "b " * 20 + "a b " * 11  # 42 words
LONG = "a " * BYTES_MAX + END
SHORT = "a " * 20_000 + END


def keep_the_end(folder: Path) -> None:
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"truncation_side": "left"}))


def join_words(folder: Path) -> None:
    """Without a pre-tokenizer a whole text is one word."""
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pre_tokenizer": None}))


KINDS: dict[str, tuple[bool, Callable[[Path], None]]] = {
    "left": (True, keep_the_end),
    "left-package": (False, keep_the_end),
    "joined": (False, join_words),
    "right": (True, lambda _: None),
    "right-package": (False, lambda _: None),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for kind, (native, change) in KINDS.items():
        write_checkpoint(found[kind], "bert")
        write_words(found[kind], native=native)
        change(found[kind])
    return found


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Server]:
    models = [f"--model={kind}={folder}" for kind, folder in folders.items()]
    running = Server(*models, "--device=cpu", f"--max-input-tokens={TOKENS_MAX}", "--frontdoors=1", "--dispatchers=1")
    try:
        yield running
        running.until_idle()
        running.stop()
    finally:
        running.kill()


def same(found: object, expected: object) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=1e-5)


@pytest.mark.parametrize("kind", ["left", "left-package"])
def test_in_process_the_end_is_kept(folders: dict[str, Path], kind: str) -> None:
    engine = Engine(str(folders[kind]))
    kept = " ".join(LONG.split()[-(TOKENS_MAX - 2) :])
    long, short, end, beginning = engine.embed([LONG, SHORT, kept, LONG[:1000]], truncate=True)
    same(long, end)
    same(short, end)
    assert np.abs(long - beginning).max() > 1e-3


@pytest.mark.parametrize("kind", ["left", "left-package"])
def test_the_end_of_a_text_is_kept_or_it_is_refused(server: Server, folders: dict[str, Path], kind: str) -> None:
    expected = Engine(str(folders[kind])).embed([SHORT], truncate=True)
    with Client(server.address, model=kind) as client:
        same(client.embed([SHORT], truncate=True), expected)
        with pytest.raises(InvalidArgument) as caught:
            client.predict(LONG, truncate=True)
    assert str(caught.value).endswith(
        f"text: {len(LONG)} bytes, at most {BYTES_MAX} for a model of at most {TOKENS_MAX} tokens; "
        "it cannot be cut: the model's tokenizer keeps the end of a text"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_token_ids_are_cut_on_the_side_of_texts(server: Server, kind: str) -> None:
    ids = [3] * 20 + [4] * TOKENS_MAX
    kept = ids[-TOKENS_MAX:] if kind.startswith("left") else ids[:TOKENS_MAX]
    with Client(server.address, model=kind) as client:
        same(client.embed([ids], truncate=True), client.embed([kept]))


def test_a_tokenizer_that_splits_no_text(server: Server) -> None:
    """The words in front of a cut could have other tokens than in the whole text."""
    with (
        Client(server.address, model="joined") as client,
        pytest.raises(InvalidArgument, match="it cannot be cut: the model's tokenizer is not known to split texts"),
    ):
        client.predict(LONG, truncate=True)


@pytest.mark.parametrize("kind", ["right", "right-package"])
def test_the_beginning_of_a_text_is_kept(server: Server, folders: dict[str, Path], kind: str) -> None:
    texts = [LONG, SHORT, END + LONG]
    expected = Engine(str(folders[kind])).embed(texts, truncate=True)
    with Client(server.address, model=kind) as client:
        for text, each in zip(texts, expected, strict=True):
            same(client.predict(text, truncate=True).embedding, each)
        for uncut, why in ((LONG, "set truncate to have it cut"), (LONG.replace(" ", "\n"), "no space")):
            with pytest.raises(InvalidArgument, match=why):
                client.predict(uncut, truncate="\n" in uncut)
