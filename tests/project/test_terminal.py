"""Text from outside reaches a terminal or a log through ``fastqps/terminal.py`` alone: one line, cut, escaped."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint
from paths import ROOT

from fastqps.cli import main
from fastqps.errors import NO_MODEL
from fastqps.terminal import LINE_CHARS_MAX, say, shown

EVIL = "x\x1b]0;title\x07\x1b[31m\r\n00:00:00.000 supervisor: ready: FORGED \u202e\u2028\x9b\ud800"
# (module, function) of what writes otherwise, and why.
OTHERS = {
    ("cli/card.py", "run"): "through shown",
    ("cli/doctor.py", "run"): "through shown",
    ("cli/predict.py", "run"): "a model's answer, as it was asked for",
    ("cli/predict.py", "_stream"): "a model's answer, as it was asked for",
    ("cli/serve.py", "run"): "the user's own settings",
    ("config/document.py", "<module>"): "a page of the documentation",
    ("models/chat/child.py", "answer"): "a pipe to the process that asks",
    ("models/config_document.py", "<module>"): "a page of the documentation",
    ("models/hub/online.py", "shown"): "constant text",
    ("models/hub/online.py", "_show"): "through shown",
    ("supervisor/log.py", "_write"): "through shown",
    ("telemetry/top/plain.py", "follow"): "what fetch_counts has made fit for a terminal",
    ("terminal.py", "_print"): "the one place",
}
FILES = {"supervisor/run_directory.py"}  # writes to files alone


def writers() -> set[tuple[str, str]]:
    """(module, function) of each call that can write to a terminal."""
    found = set()
    for path in (ROOT / "fastqps").rglob("*.py"):
        name, tree = path.relative_to(ROOT / "fastqps").as_posix(), ast.parse(path.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {id(node): function.name for function in functions for node in ast.walk(function)}
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and writes(node)]
        found |= {(name, inside.get(id(call), "<module>")) for call in calls if name not in FILES}
    return found


def writes(call: ast.Call) -> bool:
    """Whether it prints, or writes to a standard stream or to a descriptor."""
    return ast.unparse(call.func) in {"print", "os.write", "sys.stderr.write", "sys.stdout.write"}


def test_one_function_writes_to_terminals() -> None:
    assert writers() == OTHERS.keys()


@pytest.mark.parametrize(
    "text",
    [
        EVIL,
        *(f"a{c}b" for c in sorted(set(EVIL)) if not c.isprintable()),
        "x" * 10**6,
        EVIL * 10**5,
        "\x1b" * LINE_CHARS_MAX,
        "",
        "é – 東京",
    ],
)
def test_what_is_shown_is_one_short_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = shown(text)
    assert line.isprintable() and len(line) <= LINE_CHARS_MAX
    assert line == text or not text.isprintable() or line.endswith("…")
    say(text)
    assert capsys.readouterr().err == f"{line}\n"


def config(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


@pytest.mark.parametrize(
    "change",
    [
        config(architectures=[EVIL]),
        config(architectures=["A" * 10**6]),
        config(model_type=EVIL),
        config(hidden_act=EVIL),
        config(torch_dtype=EVIL, quantization_config={"quant_method": EVIL}),
        lambda folder: (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": EVIL}})),
        lambda folder: (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "A" * 10**6}})),
        lambda folder: (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": EVIL, "type": EVIL}])),
        lambda folder: (folder / "model.safetensors").write_bytes(bytes([9, *bytes(7)]) + b'{"\x1b[2J":'),
    ],
)
def test_a_start_says_what_files_say_in_one_line(
    tmp_path: Path, change: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    write_checkpoint(tmp_path, "bert")
    change(tmp_path)
    capsys.readouterr()
    assert main(["serve", str(tmp_path), "--device", "null", "--port", "0"]) == NO_MODEL
    (line,) = capsys.readouterr().err.split("\n")[:-1]
    assert line.startswith("fastqps: ") and line.isprintable() and len(line) <= LINE_CHARS_MAX
