"""k6, perf_analyzer and curl. They are to work and to see no error; rates are `fastqps bench`'s."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from answers import check_one, generated
from questions import FOLDER, PROMPT, SCRIPTS, TEXT, output
from serving import Server

import fastqps


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
        ("-m", "minilm", "-i", "grpc"),
        ("-m", "minilm", "-i", "http"),
        ("-m", "minilm", "-i", "grpc", "--streaming"),
        ("-m", "grammar", "-i", "grpc", "--streaming"),
    ],
    ids=lambda how: "-".join(word.lstrip("-") for word in how if word not in ("-m", "-i")),
)
def test_perf_analyzer(server: Server, tmp_path: Path, how: tuple[str, ...]) -> None:
    model, protocol = how[1], how[3]
    texts = {"minilm": TEXT, "grammar": PROMPT}
    data, report = tmp_path / "data.json", tmp_path / "report.csv"
    data.write_text(json.dumps({"data": [{"text": [texts[model]]}]}))
    before = server.metrics()
    # One window of 200 requests: stability is asked of nothing on a shared machine.
    window = ("--measurement-mode", "count_windows", "--measurement-request-count", "200", "-r", "1", "-s", "999")
    address = server.address if protocol == "grpc" else server.http
    program = FOLDER / "perf_analyzer/perf_analyzer"
    output(program, *how, "-u", address, "--input-data", data, "--concurrency-range", "4", *window, "-f", report)
    (row,) = csv.DictReader(report.open())
    assert float(row["Inferences/Second"]) > 0
    method = "ModelStreamInfer" if "--streaming" in how else "ModelInfer"
    answered = {name: value for name, value in server.metrics().items() if value != before.get(name)}
    ok = [v - before.get(n, 0) for n, v in answered.items() if n.startswith("fastqps_requests_total{OK,") and method in n]
    assert sum(ok) >= (200 if method == "ModelInfer" else 1)
    errors = [n for n in answered if n.startswith("fastqps_requests_total{") and "{OK," not in n and model in n]
    assert not errors


def test_curl(server: Server, client: fastqps.Client) -> None:
    def post(path: str, body: object) -> str:
        return output("curl", "-sSf", f"http://{server.http}{path}", "-d", json.dumps(body))

    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [TEXT]}
    check_one(
        [
            json.loads(post("/v1/embeddings", {"input": TEXT}))["data"][0]["embedding"],
            json.loads(post("/embed", {"inputs": TEXT}))[0],
            json.loads(post("/v2/models/minilm/infer", {"inputs": [tensor]}))["outputs"][0]["data"],
        ],
        client,
    )
    body = {"model": "grammar", "prompt": PROMPT, "temperature": 0, "max_tokens": 20, "stream": True}
    *events, done = [line for line in post("/v1/completions", body).splitlines() if line]
    assert done == "data: [DONE]"
    pieces = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events]
    assert "".join(pieces) == generated(client)
