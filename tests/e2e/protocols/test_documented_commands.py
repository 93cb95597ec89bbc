"""What a new user copies: every command of the README and of the pages of first steps, as a shell or Python runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adapter_files import write_adapter
from apis import Api
from certificates import Authority
from checkpoints import write_checkpoint
from fake_hub import FakeHub
from nightly import nightly_but
from paths import ROOT, python_path
from serving import PATIENCE_S, READY, Server
from word_files import write_words

PAGES = ("README.md", *(f"docs/{name}.md" for name in ("getting-models", "bench", "http", "openai", "rerank")))
PAGES += ("docs/open-inference.md", "docs/text-embeddings-inference.md", "docs/vllm.md")
# How commands begin that no test runs, and why.
LEFT_OUT = {
    "make demo": ".ci/run sets everything up as it does, and tests/bench holds the demo's check of answers",
    "make test": "it runs this test",
    "docker": "tests/k8s/test_container.py starts what the Dockerfile makes, without an engine",
    "pip install -e": "it would change the environment of the tests; `make setup` runs it",
    "fastqps serve --device cuda": "it needs a GPU: `make gpu-check` starts such servers",
    "grpcurl": "no package has it; it reads the schema by reflection, as tests/support/servers/reflected.py does",
    "lm_eval": "tests/e2e/protocols/test_recorded_requests.py sends what it does",
    "from huggingface_hub import": "tests/e2e/requests/test_entities.py asks a server of such a model",
    "client = openai.OpenAI(": "it needs an instruct model; tests/clients chats with a small one",
    "perf_analyzer": "tests/clients/test_load_tools.py runs it where `make test-clients` has installed it",
}
# Of packages that `make test-clients` installs.
PEER = re.compile(r"^import (openai|cohere|tritonclient)", re.MULTILINE)
CLIENTS = ROOT / "build/clients/bin/python"
FREE_PORTS = "--port=0 --http-port=0 --admin-port=0"
BRIEF = "--duration=1s --warmup=100ms"
SOCKET = "/run/fastqps/socket"
VERDICTS = (0, 6, 7, 8, 9)  # exit codes of `fastqps bench`, of runs as brief as here


def commands(page: str) -> Iterator[str]:
    """Those in the fences of a page: lines of shell, and each piece of Python as a whole."""
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            yield text
        elif language in ("", "bash"):
            lines = text.replace("\\\n", "").splitlines()
            yield from (re.sub(r"\s+# .*", "", line).removeprefix(".venv/bin/") for line in lines)


def left_out(command: str) -> bool:
    return command.startswith(tuple(LEFT_OUT))


ALL = [(page, command) for page in PAGES for command in commands(page) if not left_out(command)]
SERVES = [(page, command) for page, command in ALL if command.startswith("fastqps serve")]
QUICK = [
    (page, command)
    for page, command in ALL
    if re.search(r"127\.0\.0\.1:|PID|^fastqps (top|doctor)", command) and not PEER.search(command)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Path:
    """What the pages take for granted: models, an adapter, certificates, texts."""
    folder = tmp_path_factory.mktemp("copied")
    base = write_checkpoint(folder / "BASE", "bert")
    write_words(folder / "BASE")
    write_adapter(folder / "ADAPTER", base, target_modules=["query"])
    for name in ("DIR", "my-encoder"):
        (folder / name).symlink_to("BASE")
    (folder / "my-decoder").symlink_to(ROOT / "fastqps/data/grammar")
    pair = authority.pair("copied")
    (folder / "cert.pem").write_bytes(pair.certificate.read_bytes())
    (folder / "key.pem").write_bytes(pair.key.read_bytes())
    (folder / "tokens").write_text("the-only-token-of-this-file\n")
    (folder / "lines.txt").write_text("a text\nanother\n")
    (folder / "bin").mkdir()
    program = folder / "bin/fastqps"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fastqps "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def environment(folder: Path) -> Iterator[dict[str, str]]:
    """A hub has the repositories that the pages name."""
    hub = FakeHub()
    for name in (
        "OWNER/NAME",
        "sentence-transformers/all-MiniLM-L6-v2",
        "BAAI/bge-small-en-v1.5",
        "meta-llama/Llama-3.2-1B",
    ):
        repository = hub.repository(name, folder / "BASE")
        repository.branches["REVISION"] = repository.branches["main"]
    adapter = hub.repository("OWNER/ADAPTER", folder / "ADAPTER")
    adapter.branches["REVISION"] = adapter.branches["main"]
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    hub_settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "home"), "HF_HUB_DISABLE_XET": "1"}
    yield {**os.environ, **hub_settings, "PATH": path, "PYTHONPATH": python_path(), "NO_PROXY": "127.0.0.1"}
    hub.close()


@pytest.fixture(scope="module")
def socket(folder: Path, pooled_server: Callable[..., Server]) -> str:
    """Where a server listens in the file system."""
    path = folder / "socket"
    pooled_server(f"--port=unix:{path}", "--http-port=off")
    return str(path)


def run(words: list[str], folder: Path, environment: dict[str, str], codes: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert done.returncode in codes, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"


def serve(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Starts a server, and ends it as soon as it is ready."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command} {FREE_PORTS}"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    assert process.stderr
    for line in process.stderr:
        lines.append(line)
        if READY.search(line):
            process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0 and any(READY.search(line) for line in lines), "".join(lines)


@pytest.mark.parametrize(("page", "command"), nightly_but(QUICK, ALL), ids=repr)
def test_a_documented_command_works(
    page: str, command: str, api: Api, folder: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    server = api.server
    assert server.http
    for written, real in {
        "127.0.0.1:50051": server.address,
        "10.0.0.7:50051": server.address,
        "10.0.0.7:9464": server.admin,
        "127.0.0.1:8000": server.http,
        "curl ": "curl -sSf ",
        "PID": str(server.pid),
        "fastqps top": f"fastqps top --once --admin {server.admin}",
    }.items():
        command = command.replace(written, real)
    if SOCKET in command:
        command = command.replace(SOCKET, request.getfixturevalue("socket"))
    if PEER.search(command):
        if not CLIENTS.exists():
            pytest.skip("there is no build/clients: run `make test-clients`")
        run([str(CLIENTS), "-c", command], folder, {**environment, "PYTHONPATH": ""})
    elif "\n" in command:
        run([sys.executable, "-c", f"import fastqps\n{command}"], folder, environment)
    elif command.startswith("fastqps serve"):
        serve(command, folder, environment)
    elif mode := re.match(r"fastqps bench [\w-]+", command):
        probes = " --probes=4" if mode[0].endswith("tune") else ""
        brief = f"{mode[0]} {BRIEF}{probes}{command.removeprefix(mode[0])}"
        run(["bash", "-c", brief], folder, environment, VERDICTS)
    else:
        codes = (0, 1) if command == "fastqps doctor" else (0,)  # 1: this machine lacks something
        run(["bash", "-c", command], folder, environment, codes)


@pytest.mark.parametrize(("page", "command"), SERVES, ids=repr)
def test_the_flags_of_a_documented_server_are_understood(
    page: str, command: str, folder: Path, environment: dict[str, str]
) -> None:
    run(["bash", "-c", f"{command} --print-config"], folder, environment)


def test_every_command_that_is_left_out_is_documented() -> None:
    found = [command for page in PAGES for command in commands(page)]
    assert [beginning for beginning in LEFT_OUT if not any(command.startswith(beginning) for command in found)] == []
