"""One slow step refuses nobody. Each kind of it: ``csrc/tests/step/test_step_times.cpp``, ``test_admission.cpp``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generators import write_generator
from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps
from bench.load import PREDICT, Load, loadgen
from fastqps.bench.measure.workload import write_messages
from fastqps.v1 import predict_pb2 as pb

CONNECTIONS, STREAMS = 8, 8
TOKENS = 50  # of each short prompt and of each answer
LONG = 2000  # tokens of the prompt whose step lasts three seconds
STEP = {"fixed_us": 3000, "table": [[1, 0], [LONG * 3 // 4, 0], [LONG, 3e6]]}


def test_one_slow_step_refuses_nobody(serve: Callable[..., Server], tmp_path: Path) -> None:
    """All steps but one take 3 ms, so answers are in time. If all took a tenth of that one, none would be."""
    profile = write_profile(tmp_path / "slow.toml", STEP, task="generate")
    checkpoint = write_generator(tmp_path / "tiny")
    flags = (f"--max-input-tokens={LONG}", f"--max-output-tokens={TOKENS}", "--dispatchers=1", "--frontdoors=1")
    server = serve(f"--model={checkpoint}", f"--device=sim:{profile}", "--max-running=48", *flags)
    options = pb.GenerateOptions(max_tokens=TOKENS, ignore_eos=True)
    request = pb.PredictRequest(token_ids=pb.TokenIds(ids=[7] * TOKENS), generate=options)
    payloads = write_messages(tmp_path / "prompts", [request])
    load = Load(CONNECTIONS, STREAMS, 6.0)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client, ThreadPoolExecutor(1) as pool:
        answers = pool.submit(loadgen, server.address, PREDICT, payloads, load)  # raises if a call is refused
        until(lambda: server.work()["fastqps_requests_running"] >= 48, "the lane is full")
        client.generate([7] * LONG, max_tokens=TOKENS, ignore_eos=True)
        assert answers.result()["status"].keys() == {"OK"}
