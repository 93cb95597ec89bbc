"""The bench of protocols: ratios and verdicts, what other programs print, requests on a real server."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bench.protocols.perf_analyzer import parse as parse_report
from bench.protocols.ratio import Ratio, ratio
from bench.protocols.requests import BASE64, FLOATS, OIP, TEI, check, http_requests
from bench.protocols.rows import rows
from bench.protocols.wrk import HttpRequest
from bench.protocols.wrk import parse as parse_wrk
from bench.row import Row
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerProcess

WRK = """Running 4s test @ http://127.0.0.1:7201/inference
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.85ms    5.48ms  51.60ms   72.41%
    Req/Sec     4.85k   587.39     6.08k    69.23%
  Latency Distribution
     50%   12.10ms
     90%   19.70ms
     99%   {p99}
  19712 requests in {time}, 31.34MB read
{more}Requests/sec:   4828.69
Transfer/sec:      7.68MB
"""


@pytest.mark.parametrize(("time", "seconds"), [("4.08s", 4.08), ("900.00ms", 0.9), ("1.50m", 90.0)])
def test_wrk_is_read(time: str, seconds: float) -> None:
    for p99, p99_us in (("28.40ms", 28_400), ("812.00us", 812), ("1.02s", 1_020_000)):
        found = parse_wrk(WRK.format(time=time, p99=p99, more=""))
        assert found == (pytest.approx(19712 / seconds), 19712, pytest.approx(p99_us))


@pytest.mark.parametrize(
    "text",
    [
        WRK.format(time="4.08s", p99="1.00ms", more="  Non-2xx or 3xx responses: 1\n"),
        WRK.format(time="4.08s", p99="1.00ms", more="  Socket errors: connect 0, read 0, write 0, timeout 3\n"),
        "  0 requests in 4.00s, 0.00B read\nRequests/sec: 0.00\n",
        "unable to connect to 127.0.0.1:7201 Connection refused\n",
    ],
)
def test_wrk_with_a_failed_answer_has_no_rate(text: str) -> None:
    with pytest.raises(BenchError, match="wrk: "):
        parse_wrk(text)


def test_a_request_is_written_for_wrk(tmp_path: Path) -> None:
    script = HttpRequest("/x", b"\x00\xff", {"Content-Type": "a/b"}).write(tmp_path / "one")
    assert (tmp_path / "one/body").read_bytes() == b"\x00\xff"
    assert script.read_text().splitlines() == [
        f'wrk.method, wrk.body = "POST", io.open("{tmp_path}/one/body", "rb"):read("*a")',
        'wrk.headers["Content-Type"] = "a/b"',
    ]


def test_perf_analyzer_is_read() -> None:
    assert parse_report("Concurrency,Inferences/Second,Client Send\n16,3869.37,2\n\n") == 3869.37
    for wrong in ("Concurrency,Inferences/Second\n", "Concurrency,Inferences/Second\n1,0\n"):
        with pytest.raises(BenchError, match="no rate"):
            parse_report(wrong)


def test_a_ratio_is_one_of_medians_with_an_interval_from_rounds() -> None:
    # Three rounds: log ratios log 2, log 2, log 4; t for 2 degrees of freedom is 4.303.
    found = ratio([20, 200, 40], [10, 100, 10])
    assert found.value == 4
    middle, deviation = math.log(2) * 4 / 3, math.log(2) / math.sqrt(3)
    half = 4.3027 * deviation / math.sqrt(3)
    assert found.interval == pytest.approx((math.exp(middle - half), math.exp(middle + half)), rel=1e-3)
    assert ratio([3], [2]) == Ratio(1.5, None)
    assert str(ratio([3], [2])) == "one round: no interval"
    # A machine that slows down in a round slows both down.
    assert ratio([20, 2], [10, 1]).interval == pytest.approx((2, 2))


@pytest.mark.parametrize(
    ("value", "interval", "apart"),
    [
        (0.96, (0.94, 0.98), (0.02, 0.06)),
        (1.02, (0.99, 1.05), (0.0, 0.05)),
        (1.1, (1.08, 1.12), (0.08, 0.12)),
    ],
)
def test_apart(value: float, interval: tuple[float, float], apart: tuple[float, float]) -> None:
    found = Ratio(value, interval).apart()
    assert found.value == pytest.approx(abs(value - 1))
    assert found.interval == pytest.approx(apart)


@pytest.mark.parametrize(
    ("measured", "interval", "at_most", "verdict", "accepted"),
    [
        (0.8, None, False, "yes", True),
        (0.8, (0.71, 0.95), False, "yes", True),
        (0.95, (0.91, 0.99), False, "goal", True),
        (0.8, (0.6, 0.95), False, "inconclusive", None),
        (0.6, (0.5, 0.69), False, "NO", False),
        (None, None, False, "NO", False),
        (0.6, (0.5, 0.69), True, "goal", True),
        (0.8, (0.6, 0.95), True, "inconclusive", None),
        (0.8, (0.75, 0.95), True, "NO", False),
    ],
)
def test_a_row_is_as_sure_as_its_interval(
    measured: float | None, interval: tuple[float, float] | None, at_most: bool, verdict: str, accepted: bool | None
) -> None:
    goal = 0.9 if not at_most else 0.7
    row = Row("x", measured, "", 0.7, goal, at_most, interval=interval)
    assert (row.verdict, row.accepted) == (verdict, accepted)


def point(rate: float, cpu_us: float) -> dict[str, Any]:
    rates = [0.99 * rate, rate, 1.01 * rate]
    return {"rate": rate, "rates": rates, "cpu_us": [cpu_us] * 3, "core_busy": 0.5, "generator_bound": 0}


def test_rows_compare_with_predict_with_other_servers_and_both_generators() -> None:
    points = {"Predict": point(1000, 1), "Predict, 64 × 1": point(500, 2), "ModelInfer": point(800, 1.25)}
    points |= {BASE64: point(200, 4), FLOATS: point(150, 8), OIP: point(300, 4), TEI: point(100, 10)}
    points |= {"Triton ModelInfer": point(100, 10), "mosec echo": point(25, 40), "LitServe JSON": point(5, 160)}
    points |= {"perf_analyzer": {"rates": [98, 98, 98]}, "loadgen": {"rates": [100, 100, 100]}}
    found = {row.name: row for row in rows(points) if not row.name.startswith("…")}
    assert {name: (round(row.measured or 0, 4), row.verdict) for name, row in found.items()} == {
        "ModelInfer over Predict": (0.8, "yes"),
        "Predict, 64 × 1 over Predict": (0.5, ""),
        f"{BASE64} over Predict": (0.2, "NO"),
        f"{FLOATS} over Predict": (0.15, "yes"),
        f"{OIP} over Predict": (0.3, ""),
        f"{TEI} over Predict": (0.1, ""),
        "ModelInfer over Triton ModelInfer": (8, "NO"),
        f"{BASE64} over mosec echo": (8, "yes"),
        f"{FLOATS} over LitServe JSON": (30, "yes"),
        "perf_analyzer apart from loadgen, ModelInfer, 16 in flight": (2, "yes"),
    }
    by_cpu = [row.measured for row in rows(points) if row.name == "… by CPU time"]
    assert by_cpu == pytest.approx([0.8, 0.5, 0.25, 0.125, 0.25, 0.1, 8, 10, 20])


def test_every_protocol_has_a_request_that_is_answered_as_predict() -> None:
    with ServerProcess("--model", "minilm", "--device", "null", "--http-port", "0") as server:
        check(server.address, server.http, "a text")
    assert {request.path for request in http_requests("a").values()} == {
        "/v1/embeddings",
        "/v2/models/minilm/infer",
        "/embed",
    }
