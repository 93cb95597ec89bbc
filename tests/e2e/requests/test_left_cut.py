"""Texts over the byte limit of a model are cut as its tokenizer would cut them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoints import write_checkpoint
from serving import Server
from tokenizers import Tokenizer
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
def server(module_server: Callable[..., Server], folders: dict[str, Path]) -> Server:
    models = [f"--model={kind}={folder}" for kind, folder in folders.items()]
    return module_server(
        *models, "--device=cpu", f"--max-input-tokens={TOKENS_MAX}", "--frontdoors=1", "--dispatchers=1"
    )


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


@pytest.mark.parametrize("kind", KINDS)
def test_token_ids_are_cut_on_the_side_of_texts(server: Server, kind: str) -> None:
    ids = [3] * 20 + [4] * TOKENS_MAX
    kept = ids[-TOKENS_MAX:] if kind.startswith("left") else ids[:TOKENS_MAX]
    with Client(server.address, model=kind) as client:
        same(client.embed([ids], truncate=True), client.embed([kept]))


def texts(end: str) -> dict[str, str]:
    """Long ones by where a word in them ends, and one of a single word."""
    breaks = {
        "space": " ",
        "newline": "\n",
        "tab": "\t",
        "ideographic space": "\u3000",
        "em space": "\u2003",
        "CJK": "中",
    }
    found = {name: ("a" + each) * BYTES_MAX + end for name, each in breaks.items()}
    return found | {
        "one word": "ab" * BYTES_MAX,
        "a space, then one word": "a " + "b" * BYTES_MAX,
        "few": " " * BYTES_MAX + end,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_is_cut_like_a_short_one(server: Server, folders: dict[str, Path], kind: str) -> None:
    """As the tokenizers package cuts the whole: at any white space, and within a word."""
    package = Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
    package.enable_truncation(TOKENS_MAX, direction="left" if kind.startswith("left") else "right")
    given = list(texts(END).values())
    wanted = [package.encode(text).ids for text in given]
    with Client(server.address, model=kind) as client:
        same(client.embed(given, truncate=True), client.embed(wanted))
        with pytest.raises(InvalidArgument, match=f"at most {BYTES_MAX} for a model of .* set truncate to have it cut"):
            client.predict(given[0])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "joined"])  # there any text is one token
def test_a_long_pair_is_cut_like_a_short_one(server: Server, folders: dict[str, Path], kind: str) -> None:
    """The longer text first, or with keep_second the first text alone."""
    pairs = [("a b " * BYTES_MAX, "b"), ("b a b", "a\n" * BYTES_MAX), ("a b " * BYTES_MAX, "b a " * BYTES_MAX)]
    engine = Engine(str(folders[kind]), max_input_tokens=TOKENS_MAX)
    with Client(server.address, model=kind) as client:
        same(client.embed(pairs, truncate=True), engine.embed(pairs, truncate=True))
        first, kept = "a b " * BYTES_MAX, "b a " * 20
        words = first.split()
        room = TOKENS_MAX - 3 - len(kept.split())
        cut = " ".join(words[-room:] if kind.startswith("left") else words[:room])
        same(client.embed([(first, kept)], truncate=True, keep_second=True), client.embed([(cut, kept)]))
        with pytest.raises(InvalidArgument, match=r"pair\.second: too long: it leaves no room for the first text"):
            client.predict(pairs[1], truncate=True, keep_second=True)
