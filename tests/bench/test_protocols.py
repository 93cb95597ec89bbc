"""The bench of protocols: its claims, what other programs print, requests on a real server."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from serving import PATIENCE_S

from bench.load import HttpRequest, parse_wrk
from bench.protocols import BASE64, FLOATS, MODEL_INFER, OIP, SHARED, TEI, claims, http_requests, model_infer
from bench.runner import Subject
from fastqps import Client
from fastqps.api.reflection import message_class
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerProcess

ANSWER = "inference.ModelInferResponse"
READ: dict[str, Callable[[bytes], np.ndarray]] = {
    BASE64: lambda body: np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), np.float32),
    FLOATS: lambda body: np.asarray(json.loads(body)["data"][0]["embedding"], np.float32),
    OIP: lambda body: np.frombuffer(body[-4 * 384 :], np.float32),
    TEI: lambda body: np.asarray(json.loads(body)[0], np.float32),
}
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


def test_claims_compare_with_predict_and_with_other_servers() -> None:
    rates = {"Predict": 1000, SHARED: 500, "ModelInfer": 800, BASE64: 200, FLOATS: 150, OIP: 300, TEI: 100}
    rates |= {"Triton ModelInfer": 100, "mosec echo": 25, "LitServe JSON": 5}
    subjects = {
        name: Subject(name, dict, runs=[{"rate": rate, "cpu_us": 1000 / rate}] * 3) for name, rate in rates.items()
    }
    rows = [claim.row(subjects) for claim in claims()]
    found = {row.name: row for row in rows if not row.name.startswith("…")}
    assert {name: (round(row.measured or 0, 4), row.verdict) for name, row in found.items()} == {
        "ModelInfer over Predict": (0.8, "yes"),
        f"{SHARED} over Predict": (0.5, ""),
        f"{BASE64} over Predict": (0.2, "NO"),
        f"{FLOATS} over Predict": (0.15, "yes"),
        f"{OIP} over Predict": (0.3, ""),
        f"{TEI} over Predict": (0.1, ""),
        "ModelInfer over Triton ModelInfer": (8, "NO"),
        f"{BASE64} over mosec echo": (8, "yes"),
        f"{FLOATS} over LitServe JSON": (30, "yes"),
    }
    by_cpu = [row.measured for row in rows if row.name == "… by CPU time"]
    assert by_cpu == pytest.approx([0.8, 0.5, 0.2, 0.15, 0.3, 0.1, 8, 8, 30])


def test_every_protocol_has_a_request_that_is_answered_as_predict() -> None:
    """Bit by bit."""
    with ServerProcess("--model", "minilm", "--device", "null", "--http-port", "0") as server:
        with Client(server.address) as client, grpc.insecure_channel(server.address) as channel:
            wanted = np.asarray(client.predict("a text").embedding, np.float32)
            call = channel.unary_unary(MODEL_INFER, response_deserializer=message_class(ANSWER).FromString)
            answer: Any = call(model_infer("a text").SerializeToString(), timeout=PATIENCE_S)
        found = {"ModelInfer": np.frombuffer(answer.raw_output_contents[0], np.float32)}
        for name, request in http_requests("a text").items():
            asked = urllib.request.Request(f"http://{server.http}{request.path}", request.body, request.headers)
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as body:
                found[name] = READ[name](body.read())
    assert {name: np.array_equal(floats, wanted) for name, floats in found.items()} == dict.fromkeys(found, True)
