"""Prompts by name at a server: every protocol gives what the engine gives, and refusals list the names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import write_checkpoint, write_sentence_modules
from embedding_decoders import MISTRAL_PROMPTS, write_e5_mistral, write_qwen3
from posting import Poster
from sentence_files import MODEL_FILE, write
from serving import Server
from word_files import write_words

from fastqps import Client, Engine, InvalidArgument
from fastqps.cli import main

TEXTS = ["the day", "a b", "long " * 2000]  # the last one is tokenized by another thread
WORDS = {"query": "b a ", "document": "", "of": "a"}
CLOSE = 2e-5


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A default prompt; a tokenizer of the package; a decoder's own end token."""
    path = tmp_path_factory.mktemp("prompts")
    write_e5_mistral(path / "mistral")
    write_checkpoint(path / "package", "bert")
    write_sentence_modules(path / "package")
    write_words(path / "package", native=False)
    write(path / "package" / MODEL_FILE, {"prompts": WORDS, "default_prompt_name": "query"})
    write_qwen3(path / "qwen3")
    return {folder.name: folder for folder in path.iterdir()}


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], folders: dict[str, Path]) -> Server:
    models = (f"--model={name}={folders[name]}" for name in ("mistral", "package", "qwen3"))
    return module_server(*models, "--device=cpu", "--dtype=float32", "--dispatchers=1", "--frontdoors=1")


@pytest.mark.parametrize("name", ["mistral", "package", "qwen3"])
def test_prompts_are_the_engines(server: Server, folders: dict[str, Path], name: str) -> None:
    engine = Engine(str(folders[name]), dtype="float32")
    with Client(server.address) as client:
        (model,) = [each for each in client.models() if each.name == name]
        assert model.prompt_names == [prompt for prompt, _ in engine.card.prompts]
        assert model.default_prompt_name == engine.card.default_prompt
        seen = []
        for prompt in ("", *model.prompt_names):
            asked: Any = {"prompt_name": prompt, "truncate": True}
            seen.append(client.embed(TEXTS, model=name, **asked))
            np.testing.assert_allclose(seen[-1], engine.embed(TEXTS, **asked), atol=CLOSE)
        assert len({vectors[0].tobytes() for vectors in seen}) >= 2, "a prompt changes the vector"
        pair = client.predict(("a", "b"), model=name).embedding
        np.testing.assert_allclose(pair, engine.predict([("a", "b")])[0], atol=CLOSE)
        ids = [3, 4, 5]
        np.testing.assert_allclose(client.predict(ids, model=name).embedding, engine.predict([ids])[0], atol=CLOSE)


def test_refusals_list_the_names(server: Server) -> None:
    names = ", ".join(f"'{name}'" for name in ("query", "document", *MISTRAL_PROMPTS))
    with Client(server.address) as client:
        with pytest.raises(InvalidArgument, match=f"prompt_name: 'q' is no prompt of the model 'mistral'; .*{names}$"):
            client.predict("a", prompt_name="q")
        with pytest.raises(InvalidArgument, match="prompt_name: 'query' with token ids, which are used as they are"):
            client.predict([3, 4], prompt_name="query")


def test_other_protocols(server: Server, folders: dict[str, Path]) -> None:
    """OpenAI's by the option's name; text-embeddings-inference's own field, for the default model."""
    wanted = Engine(str(folders["mistral"]), dtype="float32").embed(["the day"], prompt_name="sts_query")[0]
    post = Poster(server)
    body = {"input": "the day", "model": "mistral", "prompt_name": "sts_query"}
    np.testing.assert_allclose(post.found("/v1/embeddings", **body)["data"][0]["embedding"], wanted, atol=CLOSE)
    found = post.found("/embed", inputs="the day", prompt_name="sts_query")
    np.testing.assert_allclose(found[0], wanted, atol=CLOSE)
    pieces = [post.found("/tokenize", inputs="the day", **named)[0] for named in ({}, {"prompt_name": "query"})]
    assert len(pieces[0]) > len(pieces[1]), "the default prompt is in front"


def test_the_command_line(server: Server, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for where in (["--address", server.address, "--model", "qwen3"], ["--model", str(folders["qwen3"])]):
        vectors = []
        for name in ("document", "query"):
            assert main(["predict", "the day", "--prompt-name", name, *where]) == 0
            vectors.append(json.loads(capsys.readouterr().out)["embedding"])
        assert vectors[0] != vectors[1]
