"""``fastqps bench`` as its user runs it: on real servers with the null device, with bad input, and interrupted."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from grpc_server import grpc_server
from pages import pages
from serving import PATIENCE_S, until
from tries import unmet, until_in_time

from fastqps.bench.results.result import Result
from fastqps.cli import main
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.capacity import read_capacity

pytestmark = pytest.mark.usefixtures("elsewhere")

# A busy machine makes the generator late, or the server; what was measured is written all the same.
MEASURED = (0, 6, 7)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--model", "minilm", "--model", "grammar", "--device", "null", "--max-running", "64") as running:
        yield running


SHORT = ("--duration", "1s", "--warmup", "200ms", "--output", "out")


def bench(*flags: str) -> int:
    return main(["bench", *flags])


def report() -> Any:
    return json.loads(Path("out/report.json").read_text())


def test_a_rate_on_a_server_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    def attempt() -> str:
        code = bench("rate", "--rate", "300", *SHORT, "--device", "null", "--", "--max-batch-items", "32")
        assert code in MEASURED
        found = report()
        assert (found["schema_version"], found["mode"], len(found["points"])) == (1, "rate", 1)
        assert found["target"]["own"] and found["target"]["model"] == "minilm" and found["target"]["device"] == "null"
        assert found["target"]["settings"] == {"device": "null", "max-batch-items": "32"}
        point = found["points"][0]
        assert 200 < point["offered_rate"] < 400 and set(point["status"]) == {"OK"}
        assert point["batch"]["items"] >= 1 and 0 <= point["duty_cycle"] <= 1
        for dispatcher in point["dispatchers"]:
            assert dispatcher["steps_per_s"] > 0 and dispatcher["items_per_step"] >= 1
        assert {"supervisor", "frontdoor", "dispatcher"} <= set(point["server_cpu"])
        files = {"report.json", "report.html"}
        assert {path.name for path in Path("out").iterdir()} == files
        out = capsys.readouterr()
        assert "300/s" in out.out and "Traceback" not in out.err
        # The server's own numbers are of the same time and calls.
        calls, counted = point["status"]["OK"], point["stages_us"]["device"]["count"]
        whole = [d["busy"] + sum(d["idle"].values()) for d in point["dispatchers"]]
        return unmet(calls=0.6 * calls < counted < 1.4 * calls + 20, time=all(0.8 < part < 1.2 for part in whole))

    until_in_time(attempt, tries=4)


@pytest.mark.parametrize(("model", "call", "items"), [("minilm", "batch:4", 4), ("grammar", "generate", 1)])
def test_calls_on_a_server_that_runs(server: ServerProcess, model: str, call: str, items: int) -> None:
    # A predicted miss of a generator's full queue is an answer, too; most have to be OK.
    flags = ("--address", server.address, "--admin", server.admin, "--model", model, "--lengths", "5")
    more = ("--max-tokens", "4") if call == "generate" else ()

    def attempt() -> str:
        assert bench("rate", "--rate", "100", "--call", call, *SHORT, *flags, *more) in MEASURED
        found = report()
        assert not found["target"]["own"] and found["target"]["model"] == model
        point = found["points"][0]
        assert point["load"]["call"] == call and point["load"]["items_per_call"] == items
        assert point["server_cpu"] is None and point["duty_cycle"] is not None
        assert (point["first_message_us"] is not None) == (call == "generate")
        return unmet(most_are_ok=point["status"]["OK"] > 50)

    until_in_time(attempt, tries=4)


def test_without_an_admin_port_the_server_is_not_known(server: ServerProcess) -> None:
    assert bench("rate", "-c", "4", *SHORT, "--address", server.address) in MEASURED
    point = report()["points"][0]
    assert point["rate"] > 0 and point["load"]["loop"] == "closed"
    assert point["duty_cycle"] is point["stages_us"] is point["dispatchers"] is None


def test_a_trace(server: ServerProcess) -> None:
    Path("trace").write_text("t_us\n" + "".join(f"{k * 10_000}\n" for k in range(200)))
    flags = ("--trace", "trace", "--speedup", "5", "--address", server.address, "--output", "out")
    assert bench("rate", *flags) in MEASURED
    assert report()["points"][0]["status"] == {"OK": 200}


def test_find_max_leaves_a_capacity_that_serve_takes(server: ServerProcess) -> None:
    flags = ("--start", "1000", "--probes", "4", "--duration", "500ms", "--warmup", "0s", "--output", "out")

    def attempt() -> str:
        code = bench("find-max", "--slo", "p50=5s", *flags, "--address", server.address, "--admin", server.admin)
        found = report()
        said = f"exit code {code}: {found['notes']}"
        assert code in (0, 7, 8, 9), said
        if found["best"] is not None:
            assert code in (0, 7), said  # 7: the generator was what failed above
            capacity = read_capacity("out/capacity.json")
            assert 0 < capacity.rate < 1300 and capacity.in_flight > 0 and found["best"] == len(found["points"]) - 4
            assert all("queue_wait_p95_s" in less for less in capacity.below_knee)  # a busy machine may not keep a rate
            capacity.check("minilm", "null")
            assert capacity.doubt(found["target"]["version"]) == ""
            if capacity.rate > 500:
                return ""
            said = f"{capacity.rate:.0f}/s"
        # Another try only where the report itself blames the generator or the machine, not the server.
        late = any(point["verdict"] == "INVALID" for point in found["points"])
        assert late or "a noisy machine" in " ".join(found["notes"]), (said, found["points"])
        return said

    until_in_time(attempt, tries=4)


# ---- what goes wrong


@pytest.fixture
def strangers() -> Iterator[dict[str, str]]:
    """Addresses where something else answers, or nothing."""
    with pages(lambda _: (404, [])) as page, grpc_server() as other:
        yield {"nobody": "127.0.0.1:1", "http": page, "grpc": other}


@pytest.mark.parametrize(
    ("who", "says"),
    [
        ("nobody", "no fastqps server answers at"),
        ("http", "no fastqps server answers at"),
        ("grpc", "is no fastqps server"),
    ],
)
def test_no_server_there(strangers: dict[str, str], who: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("rate", "--rate", "10", "--address", strangers[who]) == 1
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fastqps:")]
    assert len(error) == 1 and says in error[0] and strangers[who] in error[0]
    assert not list(Path().iterdir()), "an empty folder is left"


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (["--model", "other"], 2, "does not serve 'other'; it serves: minilm, grammar"),
        (["--call", "generate"], 2, "minilm does not generate, it is a model to embed"),
        (["--lengths", "5000", "--texts", "1"], 1, "the server refuses what is to be sent"),
        (["--admin", "127.0.0.1:1"], 1, "no /live/counts.json at 127.0.0.1:1"),
        (["--device", "null"], 2, "--device is a setting of a server that is started here"),
        (["--arrivals", "sometimes"], 2, "'sometimes' is no kind of arrivals"),
    ],
)
def test_what_this_server_cannot_do(
    server: ServerProcess, flags: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("rate", "--rate", "10", *SHORT, "--address", server.address, *flags) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fastqps:")]
    assert len(error) == 1 and says in error[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required: MODE"),
        (["rates"], "invalid choice: 'rates'"),
        (["rate"], "one of the arguments --rate -c/--in-flight --trace is required"),
        (["rate", "--rate", "-5"], "'-5' is no rate"),
        (["rate", "--rate", "few"], "'few' is no rate; write calls per second above 0"),
        (["rate", "--rate", "5", "--durations", "5s"], "did you mean --duration?"),
        (["rate", "--rate", "5", "--dispatchers", "2"], "--dispatchers is a flag of the server: write it behind --"),
        (["rate", "--rate", "5", "--text-file", "/dev/zero"], "cannot read /dev/zero: it is no regular file"),
        (["rate", "--rate", "5", "--output", "/proc/nothing"], "--output: cannot write to /proc/nothing"),
        (["rate", "--rate", "5", "--set", "lane=2"], "fastqps serve has no --lane; did you mean --lanes?"),
        (["rate", "--rate", "5", "--set", "port=2"], "--port is not yours to set here"),
        (["rate", "--rate", "5", "--set", "max-batch-delay=soon"], "--max-batch-delay: 'soon' is not a quantity"),
        (["rate", "--rate", "5", "--", "--dispatcher", "2"], "behind -- stand flags of fastqps serve"),
        (["rate", "--rate", "5", "--", "--print-config"], "--print-config is none for this"),
        (["rate", "--rate", "5", "--pin", "0"], "--pin '0' is neither auto nor off"),
        (["rate", "--rate", "5", "--load-threads", "64"], "--load-threads 64 leave none"),
        (["rate", "--rate", "5", "--address", "localhost"], "--address localhost: write HOST:PORT"),
        (["rate", "--rate", "5", "--tls-ca", "ca"], "--tls-ca is for a server: add --address HOST:PORT"),
        (["rate", "--rate", "5", "--address", "h:1", "--tls-cert", "c"], "--tls-cert and --tls-key go together"),
        (["rate", "--rate", "5", "--address", "h:1", "--tls-ca", "nowhere"], "--tls-ca nowhere: cannot be read"),
        (["rate", "--rate", "5", "--address", "h:1", "--tls-ca", __file__], "it holds no certificate in PEM"),
        (["rate", "--rate", "5", "--address", "h:1", "--token-file", os.devnull], "it holds 0 tokens; one is needed"),
    ],
)
def test_usage(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.startswith("fastqps: ") and error.count("\n") == 1
    assert not list(Path().iterdir())


def test_bad_usage_is_said_without_loading_what_measures() -> None:
    code = "import sys; from fastqps.cli import main; main(['bench', 'rate', '--rate', '-5']);"
    code += "print([m for m in ('torch', 'grpc', 'loadgen._native') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "[]\n" and "'-5' is no rate" in done.stderr


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (["--model", "nowhere"], 4, "no model 'nowhere'"),
        (["--device", "cuda:99"], 3, "cuda"),
        (["--", "--max-batch-tokens", "5"], 2, "--max-batch-tokens"),
    ],
)
def test_a_server_that_does_not_start(
    flags: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("rate", "--rate", "10", *flags) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fastqps:")]
    assert len(error) == 1 and says in error[0] and not list(Path().iterdir())


def test_a_full_disk_is_one_line(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Result, folder: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Result, "write", full)
    assert bench("rate", "--rate", "50", *SHORT, "--address", server.address) == 1
    out = capsys.readouterr()
    assert "cannot write the results to out: No space left on device" in out.err and "50/s" in out.out


@contextlib.contextmanager
def running(*flags: str) -> Iterator[subprocess.Popen[str]]:
    """The command, once its generator sends; it is killed at the end."""
    command = [sys.executable, "-m", "fastqps", "bench", "rate", *flags, "--output", "out"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen(command, start_new_session=True, **pipes)
    try:
        until(lambda: generates(run), "load")
        yield run
    finally:
        run.kill()
        run.communicate()


def ended(run: subprocess.Popen[str], code: int) -> tuple[str, str]:
    """(stdout, stderr) when it has ended by itself."""
    out, error = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == code and "Traceback" not in error
    return out, error


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def generates(process: subprocess.Popen[str]) -> bool:
    """Whether its load generator is connected, and begins."""
    assert process.poll() is None, process.communicate()
    for child in children(process):
        with contextlib.suppress(psutil.Error):
            if "loadgen" in child.cmdline() and child.net_connections(kind="tcp"):
                return True
    return False


def test_an_interrupted_run_leaves_what_it_measured_and_no_child() -> None:
    with running("--rate", "400", "--duration", "60s", "--warmup", "0s", "--device", "null") as run:
        time.sleep(1.0)
        begun = children(run)
        assert len(begun) >= 4  # supervisor, front door, dispatcher, generator
        run.send_signal(signal.SIGINT)
        out, _ = ended(run, 130)
    found = report()
    assert found["verdict"] == "INTERRUPTED" and "interrupted" in " ".join(found["notes"])
    (point,) = found["points"]
    assert point["interrupted"] and 50 < point["rate"] < 600 and 50 < point["status"]["OK"] < 10_000
    assert point["stages_us"]["device"]["count"] > 0 and "INTERRUPTED" in out
    _, alive = psutil.wait_procs(begun, timeout=PATIENCE_S)
    assert not alive


def test_a_server_of_its_own_that_dies_is_an_error() -> None:
    with running("--rate", "50", "--duration", "3s", "--warmup", "0s", "--device", "null") as run:
        time.sleep(0.5)
        server = next(p.pid for p in children(run) if p.ppid() == run.pid and "loadgen" not in p.cmdline())
        os.kill(server, signal.SIGKILL)
        _, error = ended(run, 1)
    assert "fastqps: the server ended with exit code -9 while it was measured" in error
    found = report()
    assert (found["verdict"], found["points"][0]["verdict"]) == ("FAILED", "FAILED")


def test_a_server_that_stops_is_not_the_generators_fault() -> None:
    with ServerProcess("--model", "minilm", "--device", "sim:h200-minilm-l6") as server:
        processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        with running("--rate", "50", "--duration", "4s", "--deadline", "1s", "--address", server.address) as run:
            try:
                for process in processes:  # the supervisor first: it would replace the others
                    process.suspend()
                out, error = ended(run, 1)
            finally:
                for process in processes:
                    process.resume()
    assert "the server went away while it was measured" in error
    assert "the generator was the limit" not in out + error and report()["verdict"] == "FAILED"


def test_children_end_with_a_bench_that_is_killed() -> None:
    with running("--rate", "50", "--duration", "60s", "--device", "null") as run:
        begun = children(run)
    _, alive = psutil.wait_procs(begun, timeout=PATIENCE_S)
    assert not alive
