"""Metrics: what the segment says becomes valid Prometheus text with the right numbers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capacity_files import capacity_file
from fake_source import OPENMETRICS, FakeSource, histogram, process, requests_of, samples
from paths import ROOT
from prometheus_client.parser import text_string_to_metric_families
from samples import read_samples
from serving import PATIENCE_S, Server

import fastqps
from fastqps._core import (
    CLASSES,
    IDLES,
    METHODS,
    REJECTS,
    STAGES,
    TRANSPORT_COUNTERS,
    Segment,
    Sizes,
    create_segment,
)
from fastqps.errors import FAULTS
from fastqps.telemetry.metrics import Metrics
from fastqps.telemetry.metrics.families import Edges
from fastqps.telemetry.metrics.meter import FillWindow


@pytest.fixture
def source() -> FakeSource:
    requests = np.zeros((16, len(METHODS), 17), dtype=np.uint64)
    requests[0, 0, 0], requests[0, 0, 8], requests[1, 1, 0] = 7, 2, 5
    requests[0, METHODS.index("other"), 12] = 3
    items = np.zeros((16, 17), dtype=np.uint64)
    items[1, 3] = 9
    door = process(
        {"queue_wait_ns": 3_000_000_000, "inflight_ns": 10**9}, requests=requests, items=items,
        request=requests_of(histogram(1_000, 1_000_000, 3_000_000_000), model=1, method="PredictBatch"),
        rejected=dict.fromkeys(REJECTS, 6),
        transport={**dict.fromkeys(TRANSPORT_COUNTERS, 7), "bytes_in": 8},
        expired={**dict.fromkeys(STAGES, 0), "queue": 4},
    )  # fmt: skip
    busy = process(
        {"busy_ns": 5 * 10**8, "requeued": 1, "generated_tokens": 50},
        idle_ns=dict.fromkeys(IDLES, 10**9), start_ns={"imports": 2 * 10**9, "waiting": 0},
        batch_items=histogram(1, 2, 64), batch_tokens=histogram(40, 80),
        stage={stage: histogram(2_000) for stage in STAGES},
        class_wait={**{kind: histogram() for kind in CLASSES}, "low": histogram(1, 2, 3), "suspect": histogram(1)},
    )  # fmt: skip
    return FakeSource(door, door, busy, busy, process())


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_numbers(source: FakeSource, accept: str) -> None:
    found = samples(source, accept)
    wanted = {
        "fastqps_requests_total{code=OK,method=Predict,model=a}": 14,
        "fastqps_requests_total{code=RESOURCE_EXHAUSTED,method=Predict,model=a}": 4,
        'fastqps_requests_total{code=OK,method=PredictBatch,model=b"\n}': 10,
        "fastqps_requests_total{code=OK,method=PredictStream,model=a}": 0,
        'fastqps_items_total{code=INVALID_ARGUMENT,model=b"\n}': 18,
        **{f"fastqps_items_total{{code={code},model=a}}": 0 for code in ("OK", *FAULTS)},
        'fastqps_request_duration_seconds_count{method=PredictBatch,model=b"\n}': 6,
        "fastqps_request_duration_seconds_count{method=PredictBatch,model=a}": 0,
        'fastqps_request_duration_seconds_count{method=Predict,model=b"\n}': 0,
        "fastqps_stage_duration_seconds_count{stage=device}": 2,
        "fastqps_requests_waiting{model=a}": 10,
        'fastqps_requests_waiting{model=b"\n}': 12,
        "fastqps_queue_items{class=high,model=a}": 3,
        "fastqps_queue_items{class=normal,model=a}": 7,
        "fastqps_queue_items{class=low,model=a}": 0,
        "fastqps_queue_items{class=suspect,model=a}": 0,
        'fastqps_queue_items{class=suspect,model=b"\n}': None,
        "fastqps_class_oldest_age_seconds{class=normal,model=a}": 0,
        "fastqps_class_wait_seconds_count{class=low,model=a}": 6,
        "fastqps_class_wait_seconds_count{class=suspect,model=a}": 2,
        'fastqps_class_wait_seconds_count{class=low,model=b"\n}': 0,
        "fastqps_requests_running": 8,
        'fastqps_queue_oldest_age_seconds{model=b"\n}': 0,
        "fastqps_queue_wait_seconds_total": 6,
        "fastqps_inflight_seconds_total": 2,
        "fastqps_slots": 128,
        "fastqps_slots_used": 10,
        "fastqps_batch_items_count{model=a}": 6,
        "fastqps_batch_items_sum{model=a}": 134,
        'fastqps_batch_items_count{model=b"\n}': 0,
        "fastqps_requests_total{code=OK,method=Generate,model=a}": 0,
        "fastqps_generated_tokens_total{model=a}": 100,
        "fastqps_cache_slots{model=a}": 200,
        "fastqps_cache_slots_used{model=a}": 7,
        "fastqps_device_busy_seconds_total{device=cpu,dispatcher=1}": 0.5,
        "fastqps_device_active_seconds_total{device=cpu}": 0.25,
        "fastqps_device_idle_seconds_total{device=cpu,dispatcher=0,reason=no_work}": 1,
        "fastqps_dispatcher_info{dispatcher=0,model=a}": 1,
        "fastqps_rejected_total{reason=queue_full}": 12,
        "fastqps_expired_total{stage=queue}": 8,
        "fastqps_requeued_total": 2,
        "fastqps_received_bytes_total{frontdoor=1}": 8,
        "fastqps_sent_bytes_total{frontdoor=0}": 7,
        "fastqps_transport_events_total{event=goaways,frontdoor=0}": 7,
        "fastqps_requests_total{code=UNIMPLEMENTED,method=other,model=}": 6,
        "fastqps_unauthenticated_total": 14,
        "fastqps_tls_certificate_expiry_timestamp_seconds": 1.5e9,
        "fastqps_tls_reloads_total{outcome=ok}": 3,
        "fastqps_credentials_refused{files=tls}": 0,
        "fastqps_credentials_refused{files=tokens}": 1,
        "fastqps_reload_failed{model=a}": 1,
        "fastqps_connections{frontdoor=1}": 3,
        "fastqps_process_ready{index=1,role=frontdoor}": 0,
        "fastqps_process_start_seconds{index=0,role=dispatcher,stage=imports}": 2,
        "fastqps_process_start_seconds{index=0,role=dispatcher,stage=waiting}": None,
        "fastqps_restarts_total{role=dispatcher}": 2,
        "fastqps_canaries_total{dispatcher=0,outcome=answered}": 7,
        "fastqps_canaries_total{dispatcher=2,outcome=missed}": 1,
        "fastqps_canary_age_seconds{dispatcher=2}": 2.5,
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert not [name for name in found if "cache_slots" in name and "model=b" in name]  # it is an encoder
    durations = [name for name in found if name.startswith("fastqps_request_duration_seconds_count")]
    assert len(durations) == 2 * 4, "models times methods, and no more"
    assert found['fastqps_request_duration_seconds_sum{method=PredictBatch,model=b"\n}'] == pytest.approx(2 * 3.001001)
    ages = [
        found[f"fastqps_{name}"]
        for name in ("queue_oldest_age_seconds{model=a}", "class_oldest_age_seconds{class=high,model=a}")
    ]
    assert 1.9 < ages[0] == ages[1] < 2 + PATIENCE_S
    assert any(name.startswith("fastqps_build_info{") for name in found)


def test_content_type(source: FakeSource) -> None:
    assert Metrics(source).page("")[1].startswith("text/plain; version=0.0.4")
    assert Metrics(source).page(OPENMETRICS)[1].startswith("application/openmetrics-text")


def test_histogram_buckets_are_exact() -> None:
    """Every shown edge counts what a plain list of the values counts."""
    rng = np.random.default_rng(7)
    values = [int(v) for v in np.exp(rng.uniform(0, np.log(10**12), 5000))] + [0, 1, 1023, 1024, 1025, 1535, 1536]
    buckets = histogram(*values).buckets
    edges = Edges(1 << 10, 1 << 36, 2, 1e-9).cumulative(buckets, len(values))
    assert len(edges) > 50
    for edge, count in edges[:-1]:
        limit = round(float(edge) * 1e9 / 512) * 512 if float(edge) < 1e-3 else None
        if limit:
            assert count == sum(v < limit for v in values), edge
    assert edges[-1] == ("+Inf", len(values))
    assert [count for _, count in edges] == sorted(count for _, count in edges)
    small = [1, 1, 2, 3, 4, 7, 8, 15, 16, 64]
    whole = dict(Edges(2, 1 << 21, 1, 1, integers=True).cumulative(histogram(*small).buckets, len(small)))
    for edge in (1, 3, 7, 15, 31, 63, 127):
        assert whole[str(edge)] == sum(v <= edge for v in small)


def test_batch_fill_is_of_the_last_seconds(source: FakeSource) -> None:
    source.all[2] = process({"step_tokens": 1000, "step_capacity_tokens": 1000})
    fill = FillWindow(source)
    assert fill.ratios() == [None, None]  # nothing since the window began
    source.all[2] = process({"step_tokens": 1100, "step_capacity_tokens": 1400})
    source.all[3] = process({"step_tokens": 100, "step_capacity_tokens": 400})
    assert fill.ratios() == [pytest.approx(200 / 800), None]
    for _ in range(11):
        fill.sample()
    assert fill.ratios() == [None, None]


def test_a_real_segment() -> None:
    """The names and shapes that the collector reads are those of the segment."""
    fd = create_segment(Sizes(doors=2, dispatchers=3, models=2, slots=16, max_tokens=8, answer_bytes=64))
    source = FakeSource()
    source.segment = Segment(fd)
    found = samples(source)
    assert found["fastqps_slots"] == 32
    assert "fastqps_cache_slots{model=a}" not in found
    assert found["fastqps_requests_waiting{model=a}"] == 0
    assert sum(value for name, value in found.items() if name.endswith("_total") and "build" not in name) == 0


def documented() -> set[str]:
    """The names in the table of docs/operations.md, without the ending that text pages give to counters."""
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = [line.split("|")[1] for line in page[page.index("\n## Metrics\n") :].splitlines() if line.startswith("| `")]
    return {name.removesuffix("_total") for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_documented_names_are_those_that_exist(source: FakeSource) -> None:
    source.segment.sizes.upstreams = 1  # an edge has more than other servers
    assert documented() == {family.name.removeprefix("fastqps_") for family in Metrics(source).collect()}


def test_durations_classes_and_tenants_are_told_apart(serve: Callable[..., Server]) -> None:
    server = serve("--model=minilm", "--model=grammar")
    with fastqps.Client(server.address) as client:
        answers: list[Any] = [client.predict("a") for _ in range(3)]
        answers += client.predict_batch(["a", "b"], priority="low")
        answers.append(client.generate("a", model="grammar", max_tokens=2))
        answers.append(list(client.generate_stream("a", model="grammar", max_tokens=2))[-1])
    counts = {
        ("Predict", "minilm"): 3, ("PredictBatch", "minilm"): 1, ("PredictStream", "minilm"): 0,
        ("Generate", "minilm"): 0, ("Predict", "grammar"): 1, ("Generate", "grammar"): 1,
    }  # fmt: skip
    found = server.metrics()
    name = "fastqps_request_duration_seconds_count"
    assert {(k, m): found[f"{name}{{{k},{m}}}"] for k, m in counts} == counts
    assert found[name] == 6
    waits = "fastqps_class_wait_seconds_count"
    assert [found[f"{waits}{{{key}}}"] for key in ("low,minilm", "normal,minilm", "normal,grammar")] == [2, 3, 2]
    assert found["fastqps_tenant_items_total{connection}"] == 7
    assert found["fastqps_generated_tokens_total{grammar}"] == sum(each.usage.output_tokens for each in answers)
    tokens = sum(answer.usage.input_tokens + answer.usage.output_tokens for answer in answers)
    assert found["fastqps_tenant_tokens_total{connection}"] == found["fastqps_tenant_tokens_total"] == tokens


def test_a_live_page_has_what_is_documented(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Also as promtool sees it, and in both formats."""
    server = serve("--dispatchers=1", f"--capacity={capacity_file(tmp_path / 'capacity.json')}")
    page = server.page("/metrics").decode()
    assert read_samples(page) == by_package(page)
    of_text = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
    assert {name.removeprefix("fastqps_").removesuffix("_total") for name in of_text} == {
        name for name in documented() if not name.startswith("upstream_")
    }
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian's prometheus) is not installed")
    assert promtool_says(promtool, page.encode()) == []
    # Within 1 KiB there is no room for help texts.
    assert {said.partition(" ")[2] for said in promtool_says(promtool, server.page("/metrics/load"))} == {
        "no help text"
    }


def test_samples_are_those_of_the_package() -> None:
    """What all tests read their numbers with."""
    page = '# HELP a b 7\na{x="q\\\\\\"}1\\n{",b="u v, w="} 1e3\na{b="",x="2"} 0.5\nb 2\nb_total{} +Inf\n'
    assert read_samples(page) == by_package(page) and read_samples(page)["a"] == 1000.5


def by_package(page: str) -> dict[str, float]:
    """``read_samples`` by Prometheus' own parser."""
    found: dict[str, float] = {}
    for sample in (sample for family in text_string_to_metric_families(page) for sample in family.samples):
        found[sample.name] = found.get(sample.name, 0) + sample.value
        if sample.labels:
            found[f"{sample.name}{{{','.join(v for _, v in sorted(sample.labels.items()))}}}"] = sample.value
    return found


def promtool_says(promtool: str, page: bytes) -> list[str]:
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    return done.stderr.decode().splitlines() or [f"exit code {done.returncode}"] * (done.returncode != 0)
