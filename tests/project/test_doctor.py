"""``fastqps doctor --model``: whether a server could start with these settings."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from fastqps.cli import main
from fastqps.host import machine
from fastqps.models.names import packaged

PORTS = ("--port=0", "--http-port=0", "--admin-port=0")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder without fastqps.toml, and without the findings of the machine, which take seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastqps.doctor.report.examine", list)
    (tmp_path / "empty").mkdir()
    (tmp_path / "unknown.toml").write_text('modell = ["minilm"]\n')
    (tmp_path / "good.toml").write_text('model = ["grammar"]\nmax-running = 4\n')


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ([], 0, {"settings": "the defaults"}),
        (["--model=nosuch", *PORTS], 1, {"serve": "no model 'nosuch'"}),
        (["--model=empty", *PORTS], 1, {"serve": "empty has no config.json"}),
        (["--model=minilm", "--max-running=0"], 1, {"settings": "--max-running: "}),
        (["--model=minilm", "--slots=1000", *PORTS], 1, {"serve": "--slots 1000 is not a power of two"}),
        (["--config=unknown.toml"], 1, {"settings": "unknown key 'modell'; did you mean model?"}),
        (["--config=nosuch.toml"], 1, {"settings": "cannot read the configuration file nosuch.toml"}),
        (["--config=good.toml", *PORTS], 0,
         {"settings": "2 from good.toml", "serve grammar": "generate, llama: inputs of 128 tokens, answers of 128",
          "serve: memory": "KV caches ", "serve: --admin-port": "is free"}),
        (["--model=minilm", "--dispatchers=2", *PORTS], 0,
         {"serve minilm": "embed, bert: inputs of 256 tokens, 384 dimensions; @", "serve: memory": "(dispatchers 2); ",
          "serve: --port": "is free"}),
    ],
)  # fmt: skip
def test_settings_and_model(
    flags: list[str], code: int, said: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json", *flags]) == code
    found = json.loads(capsys.readouterr().out)["findings"]
    values = {finding["name"]: finding["value"] for finding in found}
    assert {name: text for name, text in said.items() if text not in values.get(name, "")} == {}, values
    lacks = [finding for finding in found if finding["level"] == "lack"]
    assert len(lacks) == code, "one reason, or none"


def levels(*flags: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    main(["doctor", "--json", *flags])
    return {finding["name"]: finding["level"] for finding in json.loads(capsys.readouterr().out)["findings"]}


def test_ports(capsys: pytest.CaptureFixture[str]) -> None:
    """One that another program has, and one that is named twice."""
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as free:
        own, once = other.getsockname()[1], free.getsockname()[1]
        free.close()
        flags = ("--model=grammar", f"--port={once}", f"--http-port={own}", f"--admin-port={once}")
        found = levels(*flags, capsys=capsys)
    assert {name: level for name, level in found.items() if "port" in name} == {
        "serve: --port": "ok", "serve: --http-port": "lack", "serve: --admin-port": "lack",
    }  # fmt: skip


def test_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(machine, "memory_used_bytes", machine.memory_bytes)
    assert levels("--model=minilm", *PORTS, capsys=capsys)["serve: memory"] == "lack"
    assert levels("--model=minilm", "--device=null", *PORTS, capsys=capsys)["serve: memory"] == "ok"


def test_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a start warns of, doctor does."""
    grammar = packaged("grammar")
    assert grammar
    shutil.copytree(grammar, tmp_path / "odd")
    config = json.loads((grammar / "config.json").read_text())
    (tmp_path / "odd/config.json").write_text(json.dumps({**config, "key_of_tomorrow": 1}))
    assert main(["doctor", "--model=odd", *PORTS]) == 0
    assert "note  serve odd" in (out := capsys.readouterr().out) and "key_of_tomorrow" in out
