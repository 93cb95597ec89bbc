"""The steps of a closed loop stay level on a modelled GPU. Exact figures: ``csrc/tests/step/test_level_steps.cpp``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from figures import Perf
from generators import write_generator
from serving import PATIENCE_S, Server

import fastqps
from bench.load import PREDICT, Load, loadgen
from fastqps.bench.measure.workload import write_messages
from fastqps.telemetry.live.remote import fetch_counts
from fastqps.telemetry.live.spread import spread
from fastqps.v1 import predict_pb2 as pb

CONNECTIONS, STREAMS = 8, 64
TOKENS = 50  # of each prompt and of each answer


@pytest.mark.perf
def test_clients_that_start_together_do_not_make_waves(
    serve: Callable[..., Server], tmp_path: Path, perf: Perf
) -> None:
    """Half of all rows are prompts. Where a step admitted all that waits, some would have 16 times the mean."""
    checkpoint = write_generator(tmp_path / "tiny")
    flags = (f"--max-input-tokens={TOKENS}", f"--max-output-tokens={TOKENS}", "--dispatchers=1", "--frontdoors=1")
    server = serve(f"--model={checkpoint}", "--device=sim:h200-qwen2.5-0.5b", *flags)
    options = pb.GenerateOptions(max_tokens=TOKENS, ignore_eos=True)
    request = pb.PredictRequest(token_ids=pb.TokenIds(ids=[7] * TOKENS), generate=options)
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:  # the first answer says how long they are
        client.generate([7] * TOKENS, max_tokens=TOKENS, ignore_eos=True)
    [before] = fetch_counts(server.admin)["models"]
    loadgen(server.address, PREDICT, write_messages(tmp_path / "prompts", [request]), Load(CONNECTIONS, STREAMS, 3.0))
    [after] = fetch_counts(server.admin)["models"]
    rows = spread(before["tokens"], after["tokens"])
    mean, high = rows.mean, rows.p99
    assert mean is not None and high is not None
    assert mean > CONNECTIONS * STREAMS, "clients in flight together"
    perf("p99 of the rows of a step over their mean", high / mean, at_most=4)
