"""k6, perf_analyzer and curl. They are to work and to see no error; rates are `fastqps bench`'s."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from answers import check, generated
from questions import COUNT_MAX, FOLDER, PROMPT, SCRIPTS, TEXT, output
from serving import Server

import fastqps
from fastqps.errors import StatusCode


@pytest.mark.parametrize(("script", "count"), [("load", 1200), ("load_grpc", 200)])
def test_k6(server: Server, client: fastqps.Client, tmp_path: Path, script: str, count: int) -> None:
    vector = json.dumps(client.embed([TEXT])[0].tolist())
    given = {"HTTP": server.http, "GRPC": server.address, "TEXT": TEXT, "VECTOR": vector}
    flags = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
    summary = tmp_path / "summary.json"
    output(FOLDER / "bin/k6", "run", "--quiet", "--summary-export", summary, *flags, SCRIPTS / f"{script}.js")
    checks = json.loads(summary.read_text())["metrics"]["checks"]
    assert (checks["passes"], checks["fails"]) == (count, 0)


@pytest.mark.parametrize(
    "how",
    [
        ("-m", "wordllama", "-i", "grpc"),
        ("-m", "wordllama", "-i", "http"),
        ("-m", "wordllama", "-i", "grpc", "--streaming"),
        ("-m", "grammar", "-i", "grpc", "--streaming"),
    ],
    ids=lambda how: "-".join(word.lstrip("-") for word in how if word not in ("-m", "-i")),
)
def test_perf_analyzer(server: Server, tmp_path: Path, how: tuple[str, ...]) -> None:
    model, protocol = how[1], how[3]
    texts = {"wordllama": TEXT, "grammar": PROMPT}
    data, report = tmp_path / "data.json", tmp_path / "report.csv"
    data.write_text(json.dumps({"data": [{"text": [texts[model]]}]}))
    before = items_by_code(server, model)
    # Windows by count, and no stability asked: this is a shared machine. It sums up three.
    count = {"wordllama": 100, "grammar": 10}[model]
    windows = ("--measurement-mode", "count_windows", "--measurement-request-count", str(count), "-s", "999")
    address = server.address if protocol == "grpc" else server.http
    program = FOLDER / "perf_analyzer/perf_analyzer"
    output(program, *how, "-u", address, "--input-data", data, "--concurrency-range", "4", *windows, "-f", report)
    (row,) = csv.DictReader(report.open())
    assert float(row["Inferences/Second"]) > 0
    answered = {code: number - before.get(code, 0) for code, number in items_by_code(server, model).items()}
    assert answered.pop("OK") >= 3 * count
    assert not any(number for code, number in answered.items() if code != "CANCELLED"), "its end cancels streams"


def items_by_code(server: Server, model: str) -> dict[str, float]:
    keys = {code: f"fastqps_items_total{{{code},{model}}}" for code in StatusCode.__members__}
    metrics = server.metrics()
    return {code: metrics[key] for code, key in keys.items() if key in metrics}


def test_curl(server: Server, client: fastqps.Client) -> None:
    def post(path: str, body: object) -> str:
        return output("curl", "-sSf", f"http://{server.http}{path}", "-d", json.dumps(body))

    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [TEXT]}
    check(
        [
            json.loads(post("/v1/embeddings", {"input": TEXT}))["data"][0]["embedding"],
            json.loads(post("/embed", {"inputs": TEXT, "normalize": False}))[0],
            json.loads(post("/v2/models/wordllama/infer", {"inputs": [tensor]}))["outputs"][0]["data"],
        ],
        client,
    )
    body = {"model": "grammar", "prompt": PROMPT, "temperature": 0, "max_tokens": COUNT_MAX, "stream": True}
    *events, done = [line for line in post("/v1/completions", body).splitlines() if line]
    assert done == "data: [DONE]"
    pieces = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events]
    assert "".join(pieces) == generated(client)
