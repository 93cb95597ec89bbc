"""Servers that choose the size of steps by measurement, and keep what they chose.

A machine may be too busy to decide anything, so where that counts the measurement finds a given size.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from checkpoints import write_checkpoint
from fake_cuda import environment
from generators import write_generator
from nightly import nightly
from profiles import write_profile
from serving import PATIENCE_S, Server

import fastqps
from fastqps.dispatcher import stored_steps
from fastqps.host import machine

Serve = Callable[..., Server]
CHOSEN = re.compile(r"max-(batch-items|running) auto: (\d+) of at most (\d+), ")
AUTO = "--max-batch-items=auto"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "m", "bert", num_hidden_layers=1)
    return tmp_path / "m"


def start(serve: Serve, *flags: str, knee: int) -> Server:
    """A server whose first dispatcher finds this size."""
    return serve(*flags, echo=True, env={"TEST_DISPATCHER": "measured_dispatcher", "TEST_KNEE": str(knee)})


def fixed_device(path: Path) -> str:
    """For tests of what is common to all devices: it starts without torch."""
    return "--device=sim:" + write_profile(path, {"fixed_us": 300, "per_token_us": 0, "per_item_us": 10})


def choices(server: Server) -> list[str]:
    """What the server said of sizes: one line where one dispatcher has measured or read."""
    lines = [line.partition(": ")[2] for line in server.lines if re.search(r"(batch-items|running) auto: ", line)]
    return [line for line in lines if ": measuring steps, " not in line]


def stored(model: Path) -> Path:
    """The only file of a choice for the model."""
    [path] = stored_steps.folder_of(model).iterdir()
    return path


def test_a_start_measures_once_and_the_next_one_reads(serve: Serve, model: Path, tmp_path: Path) -> None:
    """Of two dispatchers one measures; one that is restarted takes what was chosen, and so does the next server.
    Batches hold so many items, which the share of a batch that is filled counts, too."""
    flags = (f"--model={model}", fixed_device(tmp_path / "p.toml"), "--dispatchers=2", AUTO)
    server = start(serve, *flags, knee=4)
    [line] = choices(server)
    assert re.fullmatch(
        r"max-batch-items auto: 4 of at most 1024, [\d,]+/s of at best [\d,]+/s \(measured in .* s\)", line
    )
    path = stored(model)
    assert f"step size: choice stored in {path}" in server.log()
    old = server.child("dispatcher 0")
    old.kill()
    server.until_filled("dispatcher 0", old)
    assert len(choices(server)) == 1
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        for _ in range(3):
            client.predict_batch([[5, 6, 7]] * 64)
    metrics = server.metrics()
    assert 192 <= metrics["fastqps_batch_items_sum"] <= 4 * metrics["fastqps_batch_items_count"]
    server.stop()
    [read] = choices(start(serve, *flags, knee=8))
    assert read.startswith("max-batch-items auto: 4, choice of 20"), read
    assert read.endswith(f"Z read from {path}")


def test_a_choice_is_the_most_that_a_limit_allows(serve: Serve, model: Path, tmp_path: Path) -> None:
    """Also of a dispatcher that was started under a lower one."""
    server = start(serve, f"--model={model}", fixed_device(tmp_path / "p.toml"), "--dispatchers=1", AUTO, knee=4)
    assert server.post("/limits", {"items": 5})[0] == 400
    assert server.post("/limits", {"items": 1})[0] == 200
    old = server.child("dispatcher 0")
    old.kill()
    server.until_filled("dispatcher 0", old)
    status, found = server.post("/limits", {"items": 4})
    assert status == 200 and found["items"] == found["most"]["items"] == 4, found
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        client.predict_batch([[5, 6, 7]] * 64)
    assert server.metrics()["fastqps_batch_items_count"] < 64
    assert len(choices(server)) == 1


def test_a_reload_to_another_shape_measures(serve: Serve, model: Path, tmp_path: Path) -> None:
    """One to a version of the same shape takes over what serves, also where nothing is stored."""
    write_checkpoint(tmp_path / "trained", "bert", num_hidden_layers=1, seed=1)
    write_checkpoint(tmp_path / "two", "bert", num_hidden_layers=2)
    server = start(serve, f"--model=m={model}", fixed_device(tmp_path / "p.toml"), AUTO, knee=4)
    stored_steps.forget(model)
    status, found = server.reload(**{"model": "m", "from": str(tmp_path / "trained")})
    assert status == 200, found
    assert len(choices(server)) == 1
    assert server.post("/limits", {"items": 4})[1]["most"]["items"] == 4
    shutil.copytree(tmp_path / "two", tmp_path / "trained", dirs_exist_ok=True)  # in place of what serves
    status, found = server.reload(model="m")
    assert status == 200, found
    assert [bool(CHOSEN.match(line)) for line in choices(server)] == [True, True]


def test_a_generator_runs_as_many_sequences_as_were_chosen(serve: Serve, tmp_path: Path) -> None:
    """Fewer than there are cache slots: the answers are the same, the rest waits, and the metrics say how many."""
    model = write_generator(tmp_path / "g")
    limits = ("--max-input-tokens=16", "--max-output-tokens=24", "--dtype=float32", "--lanes=2")
    server = start(serve, f"--model=m={model}", "--device=cpu", "--dispatchers=auto", *limits, knee=3)
    dispatchers = sum("started dispatcher" in line for line in server.lines)
    assert dispatchers == machine.usable_cores(), "one for each core"
    [line] = choices(server)
    assert line.startswith("max-running auto: 3 of at most 1024, "), line
    assert server.metrics()["fastqps_cache_slots{m}"] == 2 * 3 * dispatchers
    prompts = [[7 + i, 8, 9] for i in range(12)]
    engine = fastqps.Engine(str(model), device="cpu", dtype="float32", max_input_tokens=16, max_output_tokens=24)
    exact = [list(made.token_ids) for made in engine.generate(prompts, max_tokens=24, ignore_eos=True)]
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client, ThreadPoolExecutor(len(prompts)) as pool:
        answers = pool.map(lambda prompt: client.generate(prompt, max_tokens=24, ignore_eos=True), prompts)  # at once
        found = [list(answer.token_ids) for answer in answers]
    assert found == exact


# Of a step in µs: fixed, per row and per sequence; the sequences that are chosen, and the end of the line.
CROWDS = [
    ((500, 1, 1), 2048, ")"),  # 96 % of the rate of 4,096
    ((3000, 2.5, 2.5), 2048, "; 4096 would take 33.4 ms for a token, more than 20"),
]


@pytest.mark.parametrize(("costs", "chosen", "end"), CROWDS)
def test_a_modelled_gpu_runs_thousands_of_sequences(
    costs: tuple[float, float, float], chosen: int, end: str, serve: Serve, tmp_path: Path
) -> None:
    """Up to the knee, or to the time for a token. The device's own time decides, however busy the machine is."""
    step = dict(zip(("fixed_us", "per_token_us", "per_item_us"), costs, strict=True))
    device = f"--device=sim:{write_profile(tmp_path / 'p.toml', step, task='generate')}"
    server = serve(f"--model=m={write_generator(tmp_path / 'g')}", device, "--dispatchers=1", "--slots=4096")
    [line] = choices(server)
    assert line.startswith(f"max-running auto: {chosen} of at most 4096, ") and line.endswith(end), line
    assert server.metrics()["fastqps_cache_slots{m}"] == chosen
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        assert len(client.generate([5, 6, 7], max_tokens=3, ignore_eos=True).token_ids) == 3


@pytest.mark.parametrize("device", ["sim", *nightly("cuda:0")])  # test_sequences_are_measured_on_a_gpu, too
def test_other_devices_are_measured_by_the_same_path(serve: Serve, device: str, model: Path, tmp_path: Path) -> None:
    """For good, with whatever outcome this machine has time for."""
    if device == "sim":
        device += ":" + write_profile(tmp_path / "p.toml", {"fixed_us": 300, "per_token_us": 0, "per_item_us": 100})
    flags = (f"--device={device}", "--max-batch-tokens=256", "--max-input-tokens=64", "--dtype=float32", "--lanes=2")
    server = serve(f"--model={model}", *flags, "--max-step-time=2ms", AUTO, env=environment())
    [line] = choices(server)
    assert CHOSEN.match(line), line
    [bound] = [line for line in server.lines if "max-step-time: 2 ms: at most " in line]
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        assert len(client.predict_batch([[5, 6, 7]] * 50)) == 50
    if device.startswith("sim"):  # a step of 5 takes 0.8 ms, and the device has two lanes
        assert "at most 5 items of 1024 and 160 tokens of 256" in bound
        metrics = server.metrics()
        assert metrics["fastqps_batch_items_sum"] <= 5 * metrics["fastqps_batch_items_count"]


def test_sequences_are_measured_on_a_gpu(serve: Serve, tmp_path: Path) -> None:
    """In steps with prompts beside them, on one lane; and what was left in its cache is in no answer."""
    model = write_generator(tmp_path / "g")
    flags = ("--dtype=float32", "--slots=16", "--frontdoors=1", "--max-batch-tokens=128")
    limits = {"max_input_tokens": 48, "max_output_tokens": 32}
    flags += tuple(f"--{key.replace('_', '-')}={value}" for key, value in limits.items())
    server = serve(f"--model=m={model}", "--device=cuda:0", *flags, env=environment())
    [line] = choices(server)
    found = CHOSEN.match(line)
    assert found and found[1] == "running" and int(found[3]) == 16, line
    assert server.metrics()["fastqps_cache_slots{m}"] == int(found[2])
    exact = fastqps.Engine(str(model), device="cpu", dtype="float32", **limits)
    prompts = [[7 + i, 8, 9] for i in range(3)]
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        answers = [client.generate(prompt, max_tokens=8, ignore_eos=True) for prompt in prompts]
    expected = exact.generate(prompts, max_tokens=8, ignore_eos=True)
    assert [list(made.token_ids) for made in answers] == [list(made.token_ids) for made in expected]


@pytest.mark.parametrize(
    ("quantization", "products"),
    [("fp8", "6 of 17 matrix products in FP8"), *nightly(("int8", "8 of 17 matrix products in int8"))],
)
def test_a_server_computes_in_the_precision_that_is_set(serve: Serve, quantization: str, products: str) -> None:
    """As an engine does in its process."""
    prompts = ["Nora have these axes and your ant feeds us.", "She go home yesterday."]
    flags = ("--model=grammar", "--device=cpu", "--dispatchers=1", "--max-running=4")
    server = serve(*flags, f"--quantization={quantization}")
    assert any(line.endswith(f"dispatcher 0 (cpu): quantization {quantization}: {products}") for line in server.lines)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        served = [client.generate(prompt, logprobs=True) for prompt in prompts]
    here, plain = (
        fastqps.Engine("grammar", quantization=each).generate(prompts, logprobs=True) for each in (quantization, "none")
    )
    assert [found.token_ids for found in served] == [found.token_ids for found in here]
    assert served[0].logprobs == pytest.approx(here[0].logprobs, abs=0.02)
    assert here[0].logprobs != plain[0].logprobs
