"""What users of other servers type first: it works, or one line gives the command that works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint
from fake_hub import FakeHub, hub_of_this_process
from posting import Poster
from word_files import write_words

from fastqps import Engine
from fastqps.cli import foreign, main, peers
from fastqps.cli.parser import ArgumentParser
from fastqps.cli.serve import add_arguments
from fastqps.cli.setting_flags import given_settings
from fastqps.config import load
from fastqps.errors import ConfigError, ModelError

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
KEY = "--auth-token-file FILE"
# Whose user; what stands behind the program's name; the command that serves, which the line gives, or the same one.
TYPED: list[tuple[str, str, str]] = [
    ("TEI", "--model-id org/bert --revision v2 --port 8080", "serve org/bert@v2 --port 8080"),
    (
        "TEI",
        "--model-id org/bert --auto-truncate --api-key k",
        "serve org/bert --auto-truncate on --auth-token-file FILE",
    ),
    ("TEI", "--model-id org/bert --max-client-batch-size 64", "serve org/bert --max-request-items 64"),
    ("TEI", "serve --model-id=org/bert --pooling cls -p 80", "serve org/bert --port 80"),
    ("vLLM", "serve org/bert", "serve org/bert"),
    ("vLLM", "serve org/bert --port 8000 --dtype auto", "serve org/bert --port 8000 --dtype auto"),
    ("vLLM", "serve org/bert --max-model-len 99 -tp 2", "serve org/bert --max-input-tokens 99"),
    ("vLLM", "serve org/bert --served-model-name b --max-num-seqs 8", "serve b=org/bert --max-running 8"),
    ("vLLM", "serve org/bert --served-model-name a b", "serve a,b=org/bert"),
    ("vLLM", "serve org/bert --hf-token hf_SECRET -tp 2 --max-num-seqs 8", "serve org/bert --max-running 8"),
    ("vLLM", "serve org/bert -tp 2 --distributed-executor-backend ray", "serve org/bert"),
    ("vLLM", "serve org/bert --runner pooling --pooler-config '{}' -dp 2", "serve org/bert"),
    ("vLLM", "--model org/bert --host ::1", "serve --model org/bert --host ::1"),
    ("SGLang", "--model-path org/bert --port 30000 --is-embedding", "serve org/bert --port 30000"),
    ("infinity", "v2 --model-id org/bert", "serve org/bert"),
    ("infinity", "serve v2 --model-id org/bert", "serve org/bert"),
    ("infinity", "v2 --model-id org/bert --model-id org/b --port 7997", "serve org/bert org/b --port 7997"),
    ("Triton", "--model-repository=/models", "serve NAME=/models/NAME"),
    ("Triton", "tritonserver --model-repository=/models", "serve NAME=/models/NAME"),
    (
        "Triton",
        "--model-repository /m --grpc-port=8001 --http-port=80",
        "serve NAME=/m/NAME --port 8001 --http-port 80",
    ),
    ("Ollama", "serve", "serve"),
    ("Ollama", "run all-minilm", f"serve {MINILM}"),
    ("Ollama", "run all-minilm:latest 'Why is the sky blue?'", f"serve {MINILM}"),
    ("Ollama", "run llama3.2:1b", "serve OWNER/llama3.2"),
    ("Ollama", "run minilm", "serve minilm"),
    ("Ollama", "pull nomic-embed-text", "serve nomic-ai/nomic-embed-text-v1.5"),
    ("llama.cpp", "-m model.gguf -c 2048 --embedding", "serve --max-input-tokens 2048"),
    ("llama.cpp", "-hf org/bert-GGUF -ngl 99", "serve"),
    ("llama.cpp", "llama-server -hf org/bert-GGUF --port 80", "serve --port 80"),
    ("llama.cpp", "-c 0 -n -1 -np -1 -to 30 --port 8080", "serve --default-timeout 30s --port 8080"),
    (
        "vLLM",
        "serve org/bert --max-model-len 4k --max-num-seqs auto",
        "serve org/bert --max-input-tokens 4000 --max-running auto",
    ),
    ("vLLM", "serve org/bert --max-model-len -1 --dtype half --port 80", "serve org/bert --port 80"),
    ("SGLang", "--model-path org/bert --log-level-http debug --dtype half", "serve org/bert"),
    ("sentence-transformers", f"serve {MINILM}", f"serve {MINILM}"),
    ("", "org/bert", "serve org/bert"),
    ("", "minilm --hub-offline", "serve minilm --hub-offline"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bert"
    write_checkpoint(path, "bert", vocab_size=300)
    write_words(path)
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Path) -> Iterator[FakeHub]:
    with hub_of_this_process(monkeypatch, tmp_path) as found:
        monkeypatch.chdir(tmp_path)
        for name in ("org/bert", "org/b", MINILM, "nomic-ai/nomic-embed-text-v1.5"):
            repository = found.repository(name, model)
            repository.branches["v2"] = repository.branches["main"]
        yield found


def test_first_commands(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    for peer, typed, serves in TYPED:
        arguments = shlex.split(typed)
        works = shlex.split(serves) in (arguments, ["serve", *arguments])
        if not works:
            assert main([*arguments, "--print-config"]) == 2, typed
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith(f"fastqps: {peer}'s "), line
            assert line.partition("; try: ")[2] == f"fastqps {serves} --print-config", line
        if not re.search("NAME|FILE|OWNER", serves):
            command = arguments if works else shlex.split(serves)
            assert main([*command, "--device=null", "--print-config"]) == 0, command
            capsys.readouterr()


def test_sentence_transformers_names(hub: FakeHub) -> None:
    assert len(Engine(MINILM, device="cpu").embed(["a text"])[0]) > 1
    with pytest.raises(ModelError, match=r"OWNER/all-MiniLM-L6-v2 downloads one of the hub$"):
        Engine("all-MiniLM-L6-v2")
    with pytest.raises(ModelError, match=f"{MINILM} downloads one of the hub$"):
        Engine("all-minilm:latest")


def test_what_other_flags_mean_is_there() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    own = parser.needs_value()
    for peer in peers.PEERS:
        for flag, (needs, means) in foreign.rows(peer).items():
            assert flag not in own or means != f"{flag} {{}}", f"{peer}'s {flag} is the same here"
            assert needs or "{}" not in means, f"{peer}'s {flag} has no value"
            assert set(re.findall(r"--[a-z][a-z-]+", means)) <= own.keys(), f"{peer}'s {flag}: {means}"


# What flags of other servers take beside a plain number: all of it, none, the model's own, or as they choose.
SPECIAL = (
    "0",
    "-1",
    "-2",
    "",
    "auto",
    "all",
    "none",
    "inf",
    "1k",
    "2M",
    "0.9",
    "300.5",
    "debug",
    "critical",
    "trace",
    "half",
)


def test_every_command_that_a_hint_gives_is_taken() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    own = parser.needs_value()
    for peer in peers.PEERS:
        for flag, (needs, means) in foreign.rows(peer).items():
            if flag in own or means in (foreign.NAME, foreign.REVISION):  # no hint; any text
                continue
            for value in SPECIAL if needs else ("", "false"):
                typed = ["serve", "minilm", "--dtype=half", "--log-level=debug", flag, *([value] if value else [])]
                with pytest.raises(ConfigError) as caught:
                    foreign.refuse(typed, own)
                _, serve, *words = shlex.split(str(caught.value).partition("; try: ")[2])
                options = parser.parse(words)
                assert serve == "serve" and load(given_settings(options), {}), (peer, typed, words)


# Requests of their first pages, for a model by the names that they have for it.
REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("TEI", "/embed", {"inputs": "What is Deep Learning?"}),
    ("TEI", "/v1/embeddings", {"input": "What is Deep Learning?", "model": "text-embeddings-inference"}),
    ("vLLM", "/v1/models", None),
    ("vLLM", "/v1/embeddings", {"input": "San Francisco is a", "model": "org/bert"}),
    ("Ollama", "/api/embed", {"input": "Why is the sky blue?", "model": "all-minilm"}),
    ("Ollama", "/api/embeddings", {"prompt": "Why is the sky blue?", "model": "all-minilm"}),
    ("infinity", "/embeddings", {"input": ["Two cute cats."], "model": "other"}),
    ("Triton", "/v2/models/encoder/ready", None),
    ("Triton", "/v2/models/anything", None),
]


def test_first_requests(serve: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    fake = FakeHub()
    fake.repository("org/bert", model)
    env = {"HF_ENDPOINT": fake.url, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}
    try:
        server = serve("--model=bert,encoder=org/bert", "--any-model-name", env=env)
    finally:
        fake.close()
    post = Poster(server)
    for peer, path, body in REQUESTS:
        status, document = post.get(path) if body is None else post(path, body)
        assert status == 200, (peer, path, document)
        if path == "/v1/models":
            assert [each["id"] for each in document["data"]] == ["bert", "encoder"]
    post.close()
