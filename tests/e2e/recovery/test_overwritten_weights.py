"""Weights that are overwritten or shortened in place, against docs/reload.md, while a server has them in memory."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import static_models
from checkpoints import write_checkpoint
from serving import Server, until

from fastqps import Client

IDS = [[3, 4, 5], [6, 7], [8] * 20]


def test_files_overwritten_in_place_change_no_answer(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Nor do they end a process or have a request refused. A dispatcher that starts later says what it finds; a front
    door reads tokenizers alone."""
    write_checkpoint(tmp_path / "bert", "bert")
    write_checkpoint(tmp_path / "other", "bert", seed=1)
    static_models.model2vec(tmp_path / "static")
    models = {name: tmp_path / name / "model.safetensors" for name in ("bert", "static")}
    flags = ("--device=cpu", "--dtype=float32", "--dispatchers=2", "--frontdoors=1", "--slots=64")
    server = serve(*(f"--model={file.parent}" for file in models.values()), *flags)
    workers = [server.child(f"dispatcher {i}").pid for i in range(4)]
    with Client(server.address) as client:

        def answers() -> list[bytes]:
            return [np.asarray(client.embed(IDS, model=name)).tobytes() for name in models for _ in range(8)]

        before = answers()
        with models["bert"].open("r+b") as stream, (tmp_path / "other/model.safetensors").open("rb") as other:
            shutil.copyfileobj(other, stream)
        with models["static"].open("r+b") as stream:
            stream.seek(-1000, os.SEEK_END)
            stream.write(bytes(1000))
        assert answers() == before
        for file in models.values():
            os.truncate(file, 0)
        assert answers() == before
        server.signal(signal.SIGHUP)
        until(lambda: server.log().count("goes on serving") == len(models), server.log)
        assert answers() == before
        assert workers == [server.child(f"dispatcher {i}").pid for i in range(4)], server.log()
        os.kill(workers[0], signal.SIGKILL)
        until(lambda: "dispatcher 0 (cpu) stays down" in server.log(), server.log)
        assert "not a safetensors file" in server.log()
        assert answers() == before
    shutil.rmtree(models["bert"].parent)
    door = server.child("frontdoor 0")
    door.kill()
    server.until_filled("frontdoor 0", door)
    with Client(server.address) as client:
        assert answers() == before
    assert "poison request" not in server.log()
