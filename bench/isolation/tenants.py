"""A quiet tenant behind one proxy with loud ones, who ask for more than there is: one of them, and many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.isolation.figures import refused_row
from bench.isolation.mix import Kind, poisson
from bench.isolation.rounds import measure
from bench.isolation.subject import CAPACITY, DEADLINE_S, message
from bench.row import Row
from bench.runner import Bench
from fastqps.process.server_process import ServerProcess

OFFERED = 2.5  # of the capacity, by all loud ones together


@dataclass(frozen=True)
class Company:
    """``loud``: how many there are. ``quiet``: the quiet one's rate, a part of the capacity and less than its share.
    ``accept``: of its calls none may be refused, and so many percent must be answered within twice its unloaded p99."""

    loud: int
    quiet: float
    accept: float | None

    @property
    def name(self) -> str:
        return f"{self.loud} with {OFFERED / self.loud / self.quiet:.0f} × its rate"


COMPANIES = (Company(1, 0.05, 95), Company(64, 0.005, None))


def tenants(bench: Bench, server: ServerProcess) -> None:
    """The quiet one alone, then beside the others, in each company."""
    for company in COMPANIES:
        _tenants(company, bench, server)


def _tenants(company: Company, bench: Bench, server: ServerProcess) -> None:
    quiet = [message(tenant="quiet")]
    loud = [message(tenant=f"loud {i}") for i in range(company.loud)]

    def alone(seed: int) -> list[Kind]:
        return [Kind("quiet", quiet, poisson(company.quiet * CAPACITY, bench.seconds, 10 * seed))]

    def beside(seed: int) -> list[Kind]:
        return [*alone(seed), Kind("loud", loud, poisson(OFFERED * CAPACITY, bench.seconds, 10 * seed + 1))]

    rounds = measure(bench, f"tenants, {company.loud} loud", server, {"alone": alone, "beside": beside}, DEADLINE_S)
    ends, most_us = rounds.all("beside", "quiet"), 1e6 * DEADLINE_S
    before = rounds.percentile("alone", "quiet", 0.99, most_us)
    after = rounds.percentile("beside", "quiet", 0.99, most_us)

    def kept(p99_us: float) -> float:
        return 100 * float(np.mean(ends.wait_us <= min(2 * p99_us, most_us - 1)))

    ends_us = (0.0, most_us) if rounds.hindered("alone", "beside") else before.interval
    bench.rows += [
        refused_row(f"tenant beside {company.name}", ends, None if company.accept is None else 0),
        Row(
            "the same: answered within 2 × its unloaded p99", kept(before.value), "%", company.accept,
            note=f"p99 {after}, alone {before}{rounds.doubtful}",
            interval=(kept(ends_us[0]), kept(ends_us[1])),
        ),
    ]  # fmt: skip
