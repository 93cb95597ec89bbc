"""More processes than cores: at half of one core's capacity, the tail on one core against the tail on two."""

from __future__ import annotations

from bench.load import PREDICT, Load, loadgen
from bench.openloop import OPEN
from bench.runner import LOAD_CPU, SERVER_CPU, Bench, Claim, Subject
from bench.texts import request, texts

FLAGS = ("--model", "minilm", "--device", "null", "--frontdoors", "2", "--dispatchers", "2", "--pin", "off")


def measure(bench: Bench) -> None:
    """p99 from the intended send time, open loop, with two front doors and two dispatchers. The load shares the
    second core with the server in the two-core case."""
    payloads = bench.write(map(request, texts(1000)))
    one, two = bench.server(*FLAGS), bench.server(*FLAGS, cpus=[SERVER_CPU, LOAD_CPU])
    capacity = loadgen(one.address, PREDICT, payloads, Load(16, 64, bench.seconds), LOAD_CPU)["rate"]
    offered = round(capacity / 2)
    subjects = [
        Subject(name, bench.grpc(server.address, payloads, OPEN, rate=offered))
        for name, server in (("on 1 cores", one), ("on 2 cores", two))
    ]
    claim = Claim(
        "p99 on one core over p99 on two", "×", "on 1 cores", "on 2 cores", 10, at_most=True,
        figure="response_p99_us", note=f"{offered:,}/s offered",
    )  # fmt: skip
    bench.measure(subjects, [claim])
