"""Servers that choose the size of steps and the split of the cores by measurement, and keep what they chose."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoints import write_checkpoint
from fake_cuda import environment
from generators import write_generator
from profiles import write_profile
from serving import PATIENCE_S, Server

import fastqps
from fastqps.dispatcher.step_size import STEPS
from fastqps.host import machine
from fastqps.supervisor.split import SPLITS

Serve = Callable[..., Server]
TRIES = 5  # a machine may be too busy to decide anything
CHOSEN = re.compile(r"max-(batch-items|running) auto: (\d+) of at most (\d+), ")
AUTO = "--max-batch-items=auto"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def choices(server: Server) -> list[str]:
    """What the server said of sizes: one line where one dispatcher has measured or read."""
    return [line.partition(": ")[2] for line in server.lines if re.search(r"(batch-items|running) auto: ", line)]


def decided(start: Callable[[], Server], stored: Path) -> Server:
    """A server that has stored its choice: where others took the CPU meanwhile, it starts again."""
    for _ in range(TRIES):
        server = start()
        [line] = choices(server)
        assert CHOSEN.match(line), line
        if stored.exists():
            return server
        assert "as the rates vary too much to choose fewer" in line
        server.stop()
    pytest.skip(f"the machine was too busy for {TRIES} measurements")


def test_a_start_measures_once_and_the_next_one_reads(serve: Serve, tmp_path: Path) -> None:
    """Of two dispatchers one measures; one that is restarted takes what was chosen, and so does the next server."""
    model = tmp_path / "m"
    write_checkpoint(model, "bert", num_hidden_layers=1)
    # 0.3 ms beside 0.1 ms for each item: from 51 items on, 95 % of the best rate.
    profile = write_profile(tmp_path / "p.toml", {"fixed_us": 300, "per_token_us": 0, "per_item_us": 100})
    flags = (f"--model={model}", f"--device=sim:{profile}", "--dispatchers=2", AUTO)
    server = decided(lambda: serve(*flags), model / STEPS.file)
    match = CHOSEN.match(choices(server)[0])
    assert match and 16 <= int(match[2]) <= int(match[3]) == 1024
    old = server.child("dispatcher 0")
    old.kill()
    server.until_filled("dispatcher 0", old)
    assert len(choices(server)) == 1
    server.stop()
    again = serve(*flags)
    [read] = choices(again)
    assert read.startswith(f"max-batch-items auto: {match[2]}, choice of 20"), read
    assert read.endswith(f" read from {model / STEPS.file}")


def test_a_reload_measures_the_new_version(serve: Serve, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_checkpoint(one, "bert", num_hidden_layers=1)
    write_checkpoint(two, "bert", num_hidden_layers=2)
    server = serve(f"--model=m={one}", "--device=cpu", "--dtype=float32", AUTO)
    status, found = server.reload(model="m", path=str(two))
    assert status == 200, found
    assert len(choices(server)) == 2
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        assert len(client.predict_batch([[5, 6, 7]] * 100)) == 100


def store(model: Path, server_items: int, items: int) -> None:
    """Changes the choice that a server has stored, as if it had measured that."""
    path = model / STEPS.file
    found = json.loads(path.read_text())
    for entry in found["choices"]:
        assert entry["max_items"] == server_items
        entry["items"] = items
    path.write_text(json.dumps(found))


def test_a_generator_runs_as_many_sequences_as_were_chosen(serve: Serve, tmp_path: Path) -> None:
    """Fewer than there are cache slots: the answers are the same, the rest waits, and the metrics say how many."""
    model = write_generator(tmp_path / "m")
    limits = ("--max-input-tokens=16", "--max-output-tokens=24", "--dtype=float32")
    flags = (f"--model=m={model}", "--device=cpu", *limits)
    server = decided(lambda: serve(*flags), model / STEPS.file)
    assert choices(server)[0].startswith("max-running auto: ")
    server.stop()
    store(model, 1024, 3)
    server = serve(*flags)
    assert server.metrics()["fastqps_cache_slots{m}"] == 3
    prompts = [[7 + i, 8, 9] for i in range(12)]
    engine = fastqps.Engine(str(model), device="cpu", dtype="float32", max_input_tokens=16, max_output_tokens=24)
    exact = [made.token_ids for made in engine.generate(prompts, max_tokens=24, ignore_eos=True)]
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        found = [list(client.generate(prompt, max_tokens=24, ignore_eos=True).token_ids) for prompt in prompts]
    assert found == [list(ids) for ids in exact]


def test_batches_hold_as_many_items_as_were_chosen(serve: Serve, tmp_path: Path) -> None:
    """The share of a batch that is filled counts these."""
    model = tmp_path / "m"
    write_checkpoint(model, "bert", num_hidden_layers=1)
    flags = (f"--model={model}", "--device=cpu", "--dtype=float32", AUTO)
    decided(lambda: serve(*flags), model / STEPS.file).stop()
    store(model, 64, 4)
    server = serve(*flags)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        for _ in range(3):
            client.predict_batch([[5, 6, 7]] * 64)
    metrics = server.metrics()
    assert metrics["fastqps_batch_items_sum"] >= 192
    assert metrics["fastqps_batch_items_sum"] <= 4 * metrics["fastqps_batch_items_count"]


def test_a_gpu_is_measured_by_the_same_path(serve: Serve, tmp_path: Path) -> None:
    model = tmp_path / "m"
    write_checkpoint(model, "bert", num_hidden_layers=1)
    flags = ("--device=cuda:0", "--max-batch-tokens=256", "--max-input-tokens=64", "--dtype=float32", "--lanes=2")
    server = serve(f"--model={model}", *flags, AUTO, env=environment())
    [line] = choices(server)
    assert CHOSEN.match(line)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        assert len(client.predict_batch([[5, 6, 7]] * 50)) == 50


def test_what_is_set_is_not_measured(serve: Serve, tmp_path: Path) -> None:
    model = tmp_path / "m"
    write_checkpoint(model, "bert", num_hidden_layers=1)
    server = serve(f"--model={model}", "--device=cpu", "--dispatchers=1", "--max-batch-items=7")
    null = serve(f"--model={model}", "--device=null", AUTO)
    assert not choices(server) and not choices(null)
    assert not any("dispatchers auto" in line for line in server.lines)
    assert not (model / STEPS.file).exists() and not (model / SPLITS.file).exists()


@pytest.mark.skipif(machine.usable_cores() < 2, reason="one core cannot be split")
def test_the_split_of_the_cores_is_measured_once(serve: Serve, tmp_path: Path) -> None:
    model = tmp_path / "m"
    write_checkpoint(model, "bert", num_hidden_layers=2)
    flags = (f"--model={model}", "--device=cpu", "--dtype=float32", "--max-batch-items=16", "--dispatchers=auto")
    for _ in range(TRIES):
        server = serve(*flags)
        [line] = [line for line in server.lines if "dispatchers auto: m: " in line]
        figures = re.search(r"m: ([\d,]+)/s with (\d+) of (\d+) threads?, ([\d,]+)/s with (\d+) of 1 thread", line)
        assert figures, line
        server.stop()
        if (model / SPLITS.file).exists():
            break
        assert "too uncertain" in line
    else:
        pytest.skip(f"the machine was too busy for {TRIES} measurements")
    few, more = (int(figures[i].replace(",", "")) for i in (1, 4))
    expected = int(figures[5] if more >= 1.05 * few else figures[2])
    ratio_is_clear = not 1.03 < more / few < 1.07
    again = serve(*flags)
    [read] = [line for line in again.lines if "dispatchers auto: m: " in line]
    assert f"Z read from {model / SPLITS.file}" in read
    started = sum("started dispatcher" in line for line in again.lines)
    assert started in (int(figures[2]), int(figures[5])) and (started == expected or not ratio_is_clear)
