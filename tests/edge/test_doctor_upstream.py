"""``fastqps doctor --upstream``: one line for each address, with what an edge would run into there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from certificates import Authority
from ports import free_port
from serving import Server

from fastqps.cli import main

TOKEN = "the-token-of-the-test"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("doctor")
    (found / "tokens").write_text(f"{TOKEN}\n")
    (found / "other-tokens").write_text(f"{TOKEN}-that-nobody-has\n")
    Authority(found, "other")
    return found


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], folder: Path) -> Server:
    pair = Authority(folder, "own").pair(names="DNS:localhost")
    return module_server(*pair.flags, f"--auth-token-file={folder / 'tokens'}")


@pytest.mark.parametrize(
    ("flags", "host", "code", "said"),
    [
        ("--upstream-tls-ca={ca} --upstream-token-file={tokens}", "localhost", 0,
         r"ok    127.0.0.1:\d+ +serves minilm@[0-9a-f]{12} by fastqps \S+: inputs of 256 tokens, 1024 at a time; "
         r"round trip \d+\.\d\d ms; saturation \d\.\d\d, 0 waiting, 0 running$"),
        ("--upstream-tls-ca={ca} --upstream-token-file={tokens}", "127.0.0.1", 1, "LACK .*refused: .*certificate"),
        ("--upstream-tls-ca={other} --upstream-token-file={tokens}", "localhost", 1, "LACK .*is not trusted"),
        ("--upstream-token-file={tokens}", "localhost", 1, "LACK .*speaks TLS"),
        ("--upstream-tls-ca={ca}", "localhost", 1, "LACK .*refused: .*token"),
        ("--upstream-tls-ca={ca} --upstream-token-file={wrong}", "localhost", 1, "LACK .*refused: .*token"),
        ("--upstream-tls-ca={ca} --upstream-token-file={tokens} --model=other=minilm", "localhost", 1,
         "LACK .*mismatch: 'other' is not served here; served: 'minilm'"),
        ("--upstream-tls-ca={ca} --upstream-token-file={tokens} --model=minilm=wordllama", "localhost", 1,
         r"LACK .*mismatch: it serves minilm@[0-9a-f]{12}, the edge asks for minilm@[0-9a-f]{12}"),
        ("--upstream-tls-ca={tokens}", "localhost", 2, r"fastqps: --upstream-tls-ca \S+: the CA: it holds no"),
        ("--upstream-tls-cert={ca}", "localhost", 2, "fastqps: --upstream-tls-cert needs --upstream-tls-key too"),
        ("--upstream-token-file={ca}", "localhost", 2, "fastqps: --upstream-token-file .*: line 1: a token"),
    ],
)  # fmt: skip
def test_what_is_found_at_a_server(
    server: Server, folder: Path, flags: str, host: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"ca": folder / "own/ca.pem", "other": folder / "other/ca.pem"}
    files |= {"tokens": folder / "tokens", "wrong": folder / "other-tokens"}
    port = server.address.rpartition(":")[2]
    given = flags.format(**files).split()
    model = [] if "--model" in flags else ["--model=minilm"]
    assert main(["doctor", f"--upstream={host}:{port}", *model, *given]) == code
    out, error = capsys.readouterr()
    line = (error if code == 2 else out).splitlines()[0]
    assert re.match(said, line), line
    assert TOKEN not in out + error


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [f"--upstream=127.0.0.1:{free_port()}", "--upstream=no-such-host.invalid:1", "--model=minilm", "--json"]
    assert main(["doctor", *asked]) == 1
    first, second = json.loads(capsys.readouterr().out)["findings"]
    assert first["level"] == "lack" and "connecting: the connection is refused" in first["value"]
    assert second["name"] == "no-such-host.invalid:1" and "it cannot be looked up" in second["value"]
    assert main(["doctor", "--upstream=127.0.0.1:1"]) == 2
    assert "--upstream needs --model" in capsys.readouterr().err
