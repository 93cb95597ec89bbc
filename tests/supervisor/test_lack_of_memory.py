"""A process that gets no more memory says so in one line."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import NoReturn

import pytest

import fastqps.cli
from fastqps.errors import FAILURE
from fastqps.process import launch

LACKS = [
    MemoryError(),
    RuntimeError("can't start new thread"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    ImportError("IMPORTANT\n\nOriginal error was: libx.so: failed to map segment from shared object\n"),
]


def raising(error: Exception) -> SimpleNamespace:
    def fail(*_: object) -> NoReturn:
        raise ValueError("while reading") from error

    return SimpleNamespace(main=fail, run=fail, add_arguments=lambda _: None)


@pytest.mark.parametrize("error", LACKS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("main", ["command", "child"])
def test_one_line(
    main: str, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(main, error, monkeypatch) == FAILURE
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "not enough memory" in said and said.rstrip().endswith(str(error).strip()[-20:])


@pytest.mark.parametrize("main", ["command", "child"])
def test_other_errors_keep_their_traceback(main: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError):
        run(main, RuntimeError("a defect"), monkeypatch)


def run(main: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    if main == "command":
        monkeypatch.setattr(fastqps.cli, "import_module", lambda _: raising(error))
        return fastqps.cli.main(["doctor"])
    monkeypatch.setattr(launch, "import_module", lambda _: raising(error))
    settings = SimpleNamespace(parent_pid=0, cpus=(), title="test")
    monkeypatch.setattr(launch, "read_settings", lambda _: settings)
    monkeypatch.setattr(launch, "die_with_parent", lambda _: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("setproctitle.setproctitle", lambda _: None)
    return launch.main(["module", ""])
