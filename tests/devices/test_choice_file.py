"""Files of measured choices: what is stored comes back, and a file that cannot be used is never in the way."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint

from fastqps.devices.choice_file import CHOICES_MAX, ChoiceFile
from fastqps.dispatcher.step_size import STEPS

pytestmark = pytest.mark.compute

CPU = {"device": "a CPU", "torch": "2.11.0", "dtype": "auto", "quantization": "none", "lanes": 1, "max_tokens": 4096}
STEP = CPU | {"kernels": "auto", "threads": 1, "dispatchers": 2, "async_steps": True, "max_items": 64}
# The newest entry of a file of each kind.
ENTRIES: dict[str, dict[str, Any]] = {
    "steps": STEP | {"items": 4, "rates": [[1, 2.0]]},
}
FILES: dict[str, ChoiceFile[Any, Any]] = {file.cache: file for file in (STEPS,)}


def written(kind: str, entry: dict[str, Any]) -> str:
    return json.dumps({"format": FILES[kind].format, "choices": [{"measured": "yesterday", **entry}]})


def steps(**changes: Any) -> str:
    return written("steps", ENTRIES["steps"] | changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "choices.json"


@pytest.fixture(params=FILES)
def stored(request: pytest.FixtureRequest, path: Path) -> tuple[ChoiceFile[Any, Any], Any, Any]:
    """Each kind of file, with what is stored in it."""
    file = FILES[request.param]
    path.write_text(written(request.param, ENTRIES[request.param]))
    [(where, choice)] = file._read(path).items()
    return file, where, choice


def test_what_is_stored_comes_back(stored: tuple[ChoiceFile[Any, Any], Any, Any], path: Path) -> None:
    """Under the same circumstances, whichever of them differs, and the newest."""
    (file, where, choice), log = stored, list[str]()
    path.unlink()
    assert file.find(path, where, log.append) is None
    file.store(path, where, choice, log.append)
    assert log == [f"{file.subject}: choice stored in {path}"]
    others = [replace(where, **{field.name: "other"}) for field in fields(where)]
    assert [file.find(path, other, pytest.fail) for other in [where, *others]] == [choice, *[None] * len(others)]
    other, later = replace(where, device="another"), replace(choice, measured="2026-11-23T10:00:00Z")
    file.store(path, other, choice, log.append)
    file.store(path, where, later, log.append)
    assert (file.find(path, where, pytest.fail), file.find(path, other, pytest.fail)) == (later, choice)
    assert len(log) == 3 and list(path.parent.iterdir()) == [path]
    for i in range(CHOICES_MAX):  # the oldest go
        file.store(path, replace(where, device=f"{i}"), choice, log.append)
    assert len(file._read(path)) == CHOICES_MAX and file.find(path, where, pytest.fail) is None


DAMAGED = [
    *((kind, "", "Expecting value") for kind in FILES),
    *((kind, "[]", "not a file of fastqps: TypeError") for kind in FILES),
    *((kind, f'{{"format": {file.format}}}', "not a file of fastqps: KeyError") for kind, file in FILES.items()),
    *((kind, '{"format": 1, "choices": []}', f"its format is 1, not {file.format}") for kind, file in FILES.items()),
    *((kind, written(kind, {**entry, key: None}), "") for kind, entry in ENTRIES.items() for key in entry),
    *((kind, written(kind, {**entry, "measured": 5}), "5 is not of type str") for kind, entry in ENTRIES.items()),
    *(
        (kind, written(kind, {other: value for other, value in entry.items() if other != key}), f"KeyError\\('{key}'")
        for kind, entry in ENTRIES.items()
        for key in entry
    ),
    ("steps", "\x00\xff", "decode|Expecting value"),
    ("steps", '{"format": 3, "choices": {"a": 1}}', "not a file of fastqps"),
    ("steps", "[" * 100_000, "it is nested too deeply"),
    ("steps", " " * ((1 << 20) + 1), "longer than 1 MiB"),
    ("steps", steps(items=0), "steps of 0 items, where 64 is the most"),
    ("steps", steps(items=65), "steps of 65 items, where 64 is the most"),
    ("steps", steps(items=True), "True is not of type int"),
    ("steps", steps(rates=[]), "not the rates of sizes"),
    ("steps", steps(rates=[[1, 0]]), "not the rates of sizes"),
    ("steps", steps(rates=[[1]]), "is shorter than argument 1"),
    ("steps", steps(async_steps=1), "1 is not of type bool"),
]


@pytest.mark.parametrize(("kind", "text", "reason"), DAMAGED)
def test_a_file_that_cannot_be_used_is_one_warning_and_is_replaced(
    kind: str, text: str, reason: str, path: Path
) -> None:
    file, log = FILES[kind], list[str]()
    path.write_text(written(kind, ENTRIES[kind]))
    [(where, choice)] = file._read(path).items()
    path.write_text(text, encoding="latin-1")
    assert file.find(path, where, log.append) is None
    [warning] = log
    assert warning.startswith(f"{file.subject}: warning: {path} holds no choices that can be used (")
    assert "\n" not in warning and re.search(reason, warning), warning
    file.store(path, where, choice, log.append)
    assert log[1:] == [f"{file.subject}: choice stored in {path}"] and file._read(path) == {where: choice}


def test_what_cannot_be_stored_is_a_warning(
    stored: tuple[ChoiceFile[Any, Any], Any, Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (file, where, choice), log = stored, list[str]()
    path.unlink()
    monkeypatch.setattr(os, "fsync", full)
    file.store(path, where, choice, log.append)
    assert list(path.parent.iterdir()) == [], "nothing half-written is left"
    path.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    file.store(file.path(path.parent), where, choice, log.append)
    for line, reason in zip(log, ("No space left on device", "no folder"), strict=True):
        assert line.startswith(f"{file.subject}: warning: the choice cannot be stored (") and reason in line
        assert line.endswith("; the next start measures again")


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_models_of_one_shape_share_a_choice(
    file: ChoiceFile[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what is only named in the configuration, nor the numbers of the weights, makes another shape."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, renamed, trained, deeper = (tmp_path / name for name in ("model", "renamed", "trained", "deeper"))
    write_checkpoint(model, "bert", num_hidden_layers=3)
    shutil.copytree(model, renamed)
    config = json.loads((model / "config.json").read_text())
    named = {**config, "_name_or_path": "other", "transformers_version": "1.0", "id2label": {"0": "a", "1": "b"}}
    (renamed / "config.json").write_text(json.dumps(named))
    write_checkpoint(trained, "bert", num_hidden_layers=3, seed=1)
    assert file.path(renamed) == file.path(trained) == file.path(model)
    write_checkpoint(deeper, "bert", num_hidden_layers=4)
    (renamed / "config.json").write_text(json.dumps({**config, "num_attention_heads": 1}))
    assert len({file.path(renamed), file.path(deeper), file.path(model)}) == 3


def test_writers_at_once_leave_a_whole_file(stored: tuple[ChoiceFile[Any, Any], Any, Any], path: Path) -> None:
    (file, where, choice), done, faults = stored, threading.Event(), list[str]()

    def write(number: int) -> None:
        for i in range(20):
            file.store(path, replace(where, device=f"{number}.{i}"), choice, lambda line: None)

    def read() -> None:
        while not done.is_set():
            file.find(path, where, faults.append)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert faults == [] and list(path.parent.iterdir()) == [path] and file._read(path)
