"""loadgen beside load generators of other projects, in turns against one server: rates and times must agree.

The device is modelled. It is the bottleneck of callers that always wait: all tools must see its rate. Their response
times are not compared, because they lack the time that a tool spends between two calls. A low constant rate shows
response times. A step takes 100 ms, because tools in Python add milliseconds of their own. k6 reads no streams, so only
aiperf and guidellm see first tokens.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from figures import Perf, Unmeasured
from loadgen_runs import run
from paths import ROOT
from profiles import write_profile
from serving import Server

from fastqps.models.names import packaged
from fastqps.v1 import predict_pb2 as pb

FOLDER = ROOT / "build/witnesses"
STEP_US = 100_000
TOKENS = 2
TEXT = "She have a apple."
ROUNDS, SECONDS, CALLERS = 3, 6, 4
TOOL_S = 300.0  # a tool in Python takes a minute to start on a busy machine

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.perf,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not (FOLDER / "made").is_file(), reason="no build/witnesses: run `make test-witnesses`"),
]


@dataclass(frozen=True)
class Load:
    """``CALLERS`` that always wait, or a constant rate. ``rate``: of calls, a second."""

    open: bool
    rate: int

    @property
    def count(self) -> int:
        return self.rate * SECONDS


@dataclass(frozen=True)
class Api:
    model: str
    task: str
    flags: tuple[str, ...]
    path: str
    body: dict[str, Any]
    method: str
    request: pb.PredictRequest
    template: str = ""  # of chats, which no packaged model takes

    @property
    def streams(self) -> bool:
        return self.method.endswith("Generate")

    def model_in(self, folder: Path) -> Path:
        """The packaged model, or a copy with the template."""
        packed = packaged(self.model)
        if not self.template:
            return packed
        copy = Path(shutil.copytree(packed, folder / self.model))
        (copy / "chat_template.jinja").write_text(self.template)
        return copy


WAITING = Load(open=False, rate=10)  # the device's
CONSTANT = Load(open=True, rate=4)  # no two calls at a time
EMBEDDINGS = Api(
    "minilm",
    "embed",
    ("--max-batch-items=1",),
    "/v1/embeddings",
    {"model": "minilm", "input": TEXT},
    "/fastqps.v1.PredictService/Predict",
    pb.PredictRequest(text=TEXT),
)
COMPLETIONS = Api(
    "grammar",
    "generate",
    (f"--max-running={TOKENS}",),
    "/v1/completions",
    {"model": "grammar", "prompt": TEXT, "max_tokens": TOKENS, "ignore_eos": True},
    "/fastqps.v1.PredictService/Generate",
    pb.PredictRequest(text=TEXT, generate=pb.GenerateOptions(max_tokens=TOKENS, ignore_eos=True)),
)
CHATS = Api(
    "grammar",
    "generate",
    (f"--max-running={TOKENS}",),
    "/v1/chat/completions",
    {"model": "grammar", "messages": [{"role": "user", "content": TEXT}], "max_tokens": TOKENS, "ignore_eos": True},
    "/fastqps.v1.PredictService/Generate",
    pb.PredictRequest(
        chat={"messages": [{"role": "user", "content": TEXT}]},
        generate=pb.GenerateOptions(max_tokens=TOKENS, ignore_eos=True),
    ),
    template="{% for m in messages %}{{ m.content }}{% endfor %}",
)
WHOLE_CHATS = replace(CHATS, method="/fastqps.v1.PredictService/Predict")


class Bench:
    """A server for one API. Each tool returns its figures of a load: rate, p50_ms and first_ms, if it has them."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.folder = api, folder
        profile = write_profile(folder / "witnessed.toml", {"fixed_us": STEP_US, "per_token_us": 0}, task=api.task)
        model = api.model_in(folder)
        flags = (
            f"--model={api.model}={model}",
            f"--device=sim:{profile}",
            *api.flags,
            "--lanes=1",
            "--canary-interval=0",
        )
        self.server = Server(*flags)
        self.url = f"http://{self.server.http}"
        self.tokenizer = str(model)
        self.payload, self.texts, self.report = folder / "payload", folder / "texts.jsonl", folder / "report.json"
        self.payload.write_bytes(api.request.SerializeToString())

    def _run(self, tool: str, *words: object, **environment: str) -> None:
        """It sees nothing of this tree, and no proxy."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        kept.pop("PYTHONPATH", None)
        command = [str(FOLDER / "bin" / tool), *map(str, words)]
        done = subprocess.run(
            command, env=kept | environment, cwd=self.folder, capture_output=True, text=True, timeout=TOOL_S
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"

    def loadgen(self, load: Load) -> dict[str, float]:
        how = ("--rate", str(load.rate), "--arrivals", "constant") if load.open else ("-c", str(CALLERS))
        kind = ("--call", "server-stream") if self.api.streams else ()
        words = (*how, *kind, "--payload", str(self.payload), "--duration", f"{SECONDS}s", "--warmup", "1s")
        port = int(self.server.address.rpartition(":")[2])
        for _ in range(4):
            found = run(self.folder, port, *words, method=self.api.method, code=None)
            if not found["code"]:
                break
        else:
            raise Unmeasured(found["stdout"])
        assert set(found["status"]) == {"OK"}
        first_us = found.get("first_message_us") or {"p50": 0.0}
        return {
            "rate": found["rate"],
            "p50_ms": found["response_time_us"]["p50"] / 1e3,
            "first_ms": first_us["p50"] / 1e3,
        }

    def k6(self, load: Load, *, grpc: bool = False) -> dict[str, float]:
        where = {"HTTP": self.url + self.api.path, "BODY": json.dumps(self.api.body)}
        if grpc:
            where = {"GRPC": self.server.address, "METHOD": self.api.method[1:], "BODY": json.dumps({"text": TEXT})}
        where |= {"CALLERS": str(CALLERS), "SECONDS": str(SECONDS)} | ({"RATE": str(load.rate)} if load.open else {})
        words = [word for name, value in where.items() for word in ("-e", f"{name}={value}")]
        script = Path(__file__).with_name("witness.js")
        self._run("k6", "run", "--quiet", "--summary-export", self.report, *words, script, K6_NO_USAGE_REPORT="true")
        found = json.loads(self.report.read_text())["metrics"]
        assert found["checks"]["fails"] == 0
        times = found["grpc_req_duration" if grpc else "http_req_duration"]
        return {"rate": found["iterations"]["rate"], "p50_ms": times["med"]}

    def k6_grpc(self, load: Load) -> dict[str, float]:
        return self.k6(load, grpc=True)

    def aiperf(self, load: Load) -> dict[str, float]:
        self.texts.write_text(json.dumps({"text": TEXT}) + "\n")
        endpoint = {CHATS.path: "chat"}.get(self.api.path, self.api.path.rpartition("/")[2])
        what = ["--endpoint-type", endpoint, "-m", self.api.model, "-u", self.url, "--tokenizer", self.tokenizer]
        if self.api.task == "generate":
            what += ["--extra-inputs", f"max_tokens:{TOKENS}", "ignore_eos:true"]
        what += ["--streaming"] if self.api.streams else []
        what += ["--input-file", str(self.texts), "--custom-dataset-type", "single_turn", "--artifact-dir", "aiperf"]
        what += ["--workers-max", "1", "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none"]
        how = (
            ("--request-rate", load.rate, "--arrival-pattern", "constant") if load.open else ("--concurrency", CALLERS)
        )
        self._run("aiperf", "profile", *what, *how, "--request-count", load.count, "--warmup-request-count", CALLERS)
        found = json.loads((self.folder / "aiperf/profile_export_aiperf.json").read_text())
        assert found["request_count"]["avg"] == load.count and not found["error_summary"]
        first = found.get("time_to_first_token") or {"p50": 0.0}
        latency = found["request_latency"]["p50"]
        return {"rate": found["request_throughput"]["avg"], "p50_ms": latency, "first_ms": first["p50"]}

    def guidellm(self, load: Load) -> dict[str, float]:
        self.texts.write_text((json.dumps({"prompt": TEXT}) + "\n") * load.count)
        extras = {name: self.api.body[name] for name in ("max_tokens", "ignore_eos") if name in self.api.body}
        backend = {"kind": "openai_http", "target": self.url, "model": self.api.model, "request_format": self.api.path}
        backend["stream"] = self.api.streams
        how = f"kind=constant,rate={load.rate}" if load.open else f"kind=concurrent,streams={CALLERS}"
        what = ["--backend", json.dumps(backend | {"extras": {"body": extras}}), "--profile", how]
        what += ["--constraint", f"kind=max_requests,count={load.count}", "--data", f"kind=json_file,path={self.texts}"]
        what += ["--tokenizer", f"kind=huggingface_auto,model={self.tokenizer}"]
        what += ["--output", f"kind=json,path={self.report}", "--disable-console"]
        self._run("guidellm", "run", *what, GUIDELLM__MAX_WORKER_PROCESSES="1")
        (found,) = (benchmark["metrics"] for benchmark in json.loads(self.report.read_text())["benchmarks"])
        totals = found["request_totals"]  # with one process it leaves out one call
        assert totals["total"] == totals["successful"] >= load.count - 1
        latency_s = found["request_latency"]["successful"]["median"]
        first_ms = (found["time_to_first_token_ms"]["successful"] or {"median": 0.0})["median"]
        rate = found["requests_per_second"]["successful"]["mean"]
        return {"rate": rate, "p50_ms": latency_s * 1e3, "first_ms": first_ms}


APIS = {"embeddings": EMBEDDINGS, "completions": COMPLETIONS, "chats": CHATS, "whole chats": WHOLE_CHATS}


@pytest.fixture(scope="module", params=APIS.values(), ids=APIS)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(request.param, tmp_path_factory.mktemp("witnesses"))
    try:
        yield bench
        bench.server.until_idle()
        bench.server.stop()
    finally:
        bench.server.kill()


@pytest.mark.parametrize("tool", ["k6", "k6_grpc", "aiperf", "guidellm"])
def test_they_agree(bench: Bench, tool: str, perf: Perf) -> None:
    witness: Callable[[Load], dict[str, float]] = getattr(bench, tool)
    if tool == "k6_grpc" and bench.api.streams:
        pytest.skip("its unary calls have no counterpart of Generate")
    if tool.startswith("k6") and bench.api.template:
        pytest.skip("it sends the body that it is given, of a chat as of others")

    def ratio(load: Load, figure: str) -> float:
        rounds = [(witness(load)[figure], bench.loadgen(load)[figure]) for _ in range(ROUNDS)]
        seen, own = (median(values) for values in zip(*rounds, strict=True))
        print(f"{tool} {figure}: {seen:.5g}, loadgen {own:.5g}")
        return seen / own

    figures = [(WAITING, "rate"), (CONSTANT, "p50_ms")]
    if tool in ("aiperf", "guidellm") and bench.api.streams:
        figures.append((CONSTANT, "first_ms"))
    for load, figure in figures:
        name = f"{figure} of {tool} over loadgen's, {bench.api.path}{' streamed' * bench.api.streams}"
        perf(name, lambda load=load, figure=figure: ratio(load, figure), at_least=0.95, at_most=1.05)
