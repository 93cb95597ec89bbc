"""Files of step sizes: what is stored comes back, and a file that cannot be used is never in the way."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint

from fastqps.dispatcher import stored_steps
from fastqps.dispatcher.stored_steps import FORMAT, Choice, Circumstances, find, folder_of, path_of, store

pytestmark = pytest.mark.compute

WHERE = Circumstances("a CPU", "2.11.0", "auto", "none", "auto", 1, 2, 1, True, 64, 4096)
CHOICE = Choice("yesterday", 4, ((1, 2.0), (4, 3.5)))
ENTRY: dict[str, Any] = {"format": FORMAT, "where": asdict(WHERE), "choice": asdict(CHOICE)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "choice.json"


def test_what_is_stored_comes_back(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest one."""
    assert find(path, WHERE) is None
    later = replace(CHOICE, measured="2026-11-23T10:00:00Z", items=1)
    for choice in (CHOICE, later):
        store(path, WHERE, choice)
        assert capsys.readouterr().err == f"step size: choice stored in {path}\n"
        assert find(path, WHERE) == choice
    assert list(path.parent.iterdir()) == [path] and capsys.readouterr().err == ""


def choice(**changes: Any) -> str:
    return json.dumps(ENTRY | {"choice": ENTRY["choice"] | changes})


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {other: value for other, value in entry.items() if other != key}


DAMAGED = [
    ("", "Expecting value"),
    ("[]", "not a file of fastqps: TypeError"),
    (f'{{"format": {FORMAT}}}', "not a file of fastqps: KeyError"),
    ('{"format": 1, "choices": []}', f"its format is 1, not {FORMAT}"),
    ("\x00\xff", "decode|Expecting value"),
    ("[" * 100_000, "it is nested too deeply"),
    (" " * ((1 << 20) + 1), "longer than 1 MiB"),
    *((json.dumps(without(ENTRY, key)), f"KeyError\\('{key}'") for key in ENTRY),
    *((json.dumps(ENTRY | {key: None}), "") for key in ENTRY),
    *(
        (json.dumps(ENTRY | {"choice": without(ENTRY["choice"], key)}), f"KeyError\\('{key}'")
        for key in ENTRY["choice"]
    ),
    *((choice(**{key: None}), "") for key in ENTRY["choice"]),
    (json.dumps(ENTRY | {"where": ENTRY["where"] | {"lanes": 2}}), "it is of other circumstances"),
    (choice(measured=5), "5 is no time"),
    *((choice(items=n), f"steps of {n} items, where 64 is the most") for n in (0, 65, True, "4", 4.0)),
    *((choice(rates=rates), "not the rates of sizes") for rates in ([], [[1, 0]], [[1.5, 2]], [[1, "2"]], [[1, True]])),
    (choice(rates=[[1]]), "not enough values"),
    (choice(rates=[[1, float("nan")]]), "is no number that a float"),
]


@pytest.mark.parametrize(("text", "reason"), DAMAGED)
def test_a_file_that_cannot_be_used_is_one_warning_and_is_replaced(
    text: str, reason: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(text, encoding="latin-1")
    assert find(path, WHERE) is None
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"warning: step size: {path} holds no choice that can be used (")
    assert re.search(reason, warning), warning
    store(path, WHERE, CHOICE)
    assert find(path, WHERE) == CHOICE


def test_what_cannot_be_stored_is_a_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    store(path, WHERE, CHOICE)
    assert list(path.parent.iterdir()) == [], "nothing half-written is left"
    path.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    store(path_of(path.parent, WHERE), WHERE, CHOICE)
    lines = capsys.readouterr().err.splitlines()
    for line, reason in zip(lines, ("No space left on device", "no folder"), strict=True):
        assert line.startswith("warning: step size: the choice cannot be stored (") and reason in line
        assert line.endswith("; the next start measures again")


def test_a_lock_that_cannot_be_had_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"fastqps-{os.getuid()}").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with stored_steps.measuring():
        pass
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: step size: ") and line.endswith("; this process measures for itself")


def test_models_of_one_shape_share_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is only named in the configuration, nor the numbers of the weights, makes another shape. Each of the
    circumstances has a file of its own, and all are forgotten together."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, renamed, trained, deeper = (tmp_path / name for name in ("model", "renamed", "trained", "deeper"))
    write_checkpoint(model, "bert", num_hidden_layers=3)
    shutil.copytree(model, renamed)
    config = json.loads((model / "config.json").read_text())
    named = {**config, "_name_or_path": "other", "transformers_version": "1.0", "id2label": {"0": "a", "1": "b"}}
    (renamed / "config.json").write_text(json.dumps(named))
    write_checkpoint(trained, "bert", num_hidden_layers=3, seed=1)
    assert path_of(renamed, WHERE) == path_of(trained, WHERE) == path_of(model, WHERE)
    write_checkpoint(deeper, "bert", num_hidden_layers=4)
    (renamed / "config.json").write_text(json.dumps({**config, "num_attention_heads": 1}))
    assert len({folder_of(each) for each in (renamed, deeper, model)}) == 3
    others = [WHERE, *(replace(WHERE, **{field.name: "other"}) for field in fields(WHERE))]
    paths = {path_of(model, where) for where in others}
    assert len(paths) == len(others)
    for path, where in ((path_of(model, where), where) for where in (*others[:3], WHERE)):
        store(path, where, CHOICE)
        assert find(path, where) == CHOICE
    store(path_of(deeper, WHERE), WHERE, CHOICE)
    stored_steps.forget(model)
    assert list(folder_of(model).iterdir()) == [] and find(path_of(deeper, WHERE), WHERE) == CHOICE


def test_writers_at_once_leave_a_whole_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = threading.Event()

    def write(number: int) -> None:
        for i in range(20):
            store(path, WHERE, replace(CHOICE, measured=f"{number}.{i}"))

    def read() -> None:
        while not done.is_set():
            find(path, WHERE)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert "warning" not in capsys.readouterr().err and list(path.parent.iterdir()) == [path] and find(path, WHERE)
