"""The bench and the demo measure and check what they say: a figure or a check that cannot be wrong proves nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ports import free_port
from serving import Server

from bench.load import PREDICT, Load, h2load, loadgen, read_samples
from bench.result_file import Row, markdown, number
from bench.texts import request, texts, write_body
from examples.demo import check as demo_check
from examples.demo.sentences import MANY
from fastqps import Engine
from fastqps.bench.measure.processes import cpu_by_role, usage
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerError, ServerProcess
from fastqps.telemetry.live.remote import fetch_counts

SHORT = Load(connections=2, inflight=8, seconds=0.5, warmup_s=0.2)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server("--dispatchers=1")
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def test_loadgen_counts_what_the_server_counts(server: Server, tmp_path: Path) -> None:
    payloads = write_messages(tmp_path / "p", map(request, texts(50)))
    before = fetch_counts(server.admin)["codes"]
    found = loadgen(server.address, PREDICT, payloads, SHORT, samples=tmp_path / "s")
    after = fetch_counts(server.admin)["codes"]
    assert found["loop"] == "closed" and found["rate"] > 0 and "timeline" not in found
    # What was in flight at the end is answered, but counted only where its answer came in time.
    items = {code: n for code, count in after.items() if (n := count - before[code])}
    assert 0 <= items["OK"] - found["status_with_warmup"]["OK"] <= SHORT.connections * SHORT.inflight
    assert set(items) == {"OK"}
    samples = list(read_samples(tmp_path / "s"))
    assert samples and all(len(answer.embedding.values) == 384 for _, answer in samples)
    assert {payload for payload, _ in samples} <= set(range(50))
    roles = cpu_by_role(server.pid)
    assert set(roles) == {"supervisor", "frontdoor", "dispatcher", "kernel"}
    assert 0 < roles["kernel"] < roles["supervisor"] + roles["frontdoor"] + roles["dispatcher"]
    assert all(process.resident_bytes > 1 << 20 for process in usage(server.pid))


def test_open_loop_offers_the_rate(server: Server, tmp_path: Path) -> None:
    payloads = write_messages(tmp_path / "p", [request("hello")])
    found = loadgen(server.address, PREDICT, payloads, Load(2, 100, 1.0, 0.2), rate=500)
    assert found["loop"] == "open" and 400 < found["calls"]["due"] < 600  # Poisson: 500 ± 4.5 standard deviations
    times = found["response_time_us"]
    assert times["p50"] <= times["p90"] <= times["max"]


@pytest.mark.parametrize(("path", "text"), [(PREDICT, "word " * 300), ("/fastqps.v1.PredictService/Nothing", "a text")])
def test_an_answer_that_is_not_ok_is_no_figure(server: Server, tmp_path: Path, path: str, text: str) -> None:
    payloads = write_messages(tmp_path / "p", [request("a text"), request(text)])
    with pytest.raises(BenchError, match=r"not every answer was OK|all calls were answered UNIMPLEMENTED"):
        loadgen(server.address, path, payloads, SHORT)


def test_h2load_is_not_believed_about_http_errors(server: Server, tmp_path: Path) -> None:
    if not shutil.which("h2load"):
        pytest.skip("no h2load")
    body = write_body(tmp_path / "p", request("a text"))
    assert h2load(server.address, PREDICT, body, Load(2, 8, 1, 0), 0) > 0
    with pytest.raises(BenchError):
        h2load(f"127.0.0.1:{free_port()}", PREDICT, body, Load(1, 1, 1, 0), 0)


def test_texts_are_many_and_always_the_same() -> None:
    many = texts(2000)
    assert len(set(many)) == 2000 and many == texts(2000) and many[:10] == texts(10)
    assert {len(text.split()) for text in many} == {30}


def test_rows_say_what_was_reached() -> None:
    rows = [
        Row("reached", 450e3, "/s", 300e3, 450e3),
        Row("enough", 301_234, "/s", 300e3, 450e3),
        Row("missed", 299_999, "/s", 300e3),
        Row("small enough", 19.96, "µs", 20, at_most=True),
        Row("only said", 7, "x"),
    ]
    assert [row.verdict for row in rows] == ["goal", "yes", "NO", "yes", ""]
    assert "| enough | 301,000 /s | ≥ 300,000 | ≥ 450,000 | yes |  |" in markdown(rows)
    assert [number(x) for x in (1234567, 0.01234, 20, 999.4, None)] == ["1,230,000", "0.0123", "20", "999", ""]


def test_server_process_serves_and_drains() -> None:
    lines: list[str] = []
    with ServerProcess("--model", "minilm", "--device", "null", on_line=lines.append) as server:
        assert server.address.startswith("127.0.0.1:") and server.admin.startswith("http://127.0.0.1:")
        assert server.drain() == 0 and server.drain() == 0
    assert any("ready" in line for line in lines)


def test_server_process_says_why_there_is_none() -> None:
    with pytest.raises(ServerError, match="no model 'nowhere'"), ServerProcess("--model", "nowhere"):
        pass


def test_demo_finds_wrong_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Engine("minilm").predict(MANY)
    right = np.stack([np.asarray(row) for row in rows])
    monkeypatch.setattr(demo_check, "Engine", lambda model: SimpleNamespace(predict=lambda texts: rows))
    numbers = np.arange(len(MANY))

    def verdict(vectors: np.ndarray) -> demo_check.Verdict:
        np.savez(tmp_path / "kept.npz", sentences=numbers, vectors=vectors)
        return demo_check.check(tmp_path / "kept.npz")

    assert verdict(right).wrong == 0 and verdict(right).checked == len(MANY)
    swapped, broken = right.copy(), right.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    broken[3] = np.nan
    assert verdict(swapped).wrong == 2
    assert verdict(broken).wrong == 1
    assert verdict(right[:, :100]).wrong == len(MANY)
