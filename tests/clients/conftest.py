"""Clients of other projects, unchanged, against a real server. `make test-clients` installs them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers as tk
from decoders import write_instruct
from questions import ANSWER_MAX, FOLDER, run_script
from serving import Server
from tokenized_classifiers import IDENTITY, classifier_at

import fastqps


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if (FOLDER / "made").is_file():
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="there is no build/clients: run `make test-clients`"))


def served(*flags: str) -> Iterator[Server]:
    server = Server(*flags, "--device=cpu", "--dtype=float32")
    try:
        yield server
        server.until_idle()
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    yield from served("--model=wordllama", "--model=grammar")


@pytest.fixture(scope="session")
def ranking_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cross-encoder with one label."""
    folder = classifier_at(tmp_path_factory.mktemp("ranker"), 1, **IDENTITY)
    yield from served(f"--model=ranker={folder}")


@pytest.fixture(scope="session")
def chat_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A random decoder with a chat template. It writes no white space, which else could fill a JSON text."""
    folder = tmp_path_factory.mktemp("instruct")
    write_instruct(folder, max_position_embeddings=8192)  # some clients put a schema into the prompt
    tokens = tk.Tokenizer.from_file(str(folder / "tokenizer.json"))
    blank = [tokens.token_to_id(letter) for letter in "ĠĊĉč"]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 257, "suppress_tokens": blank}))
    limits = ("--max-input-tokens=4000", f"--max-output-tokens={ANSWER_MAX}")
    yield from served(f"--model=chat={folder}", *limits)


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[fastqps.Client]:
    with fastqps.Client(server.address) as client:
        yield client


@pytest.fixture
def run(server: Server) -> Callable[[str], Any]:
    """Runs a script by name against ``server``: what it found."""
    return lambda name: run_script(name, server)
