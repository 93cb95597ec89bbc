"""The live page: its numbers against counters that are known, and what a real browser makes of a real server."""

from __future__ import annotations

import json
import re
import signal
import threading
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import fake_source
import numpy as np
import pytest
from browser import MISSING, Browser
from fake_source import LOAD, counts
from serving import PATIENCE_S, Server

import fastqps
from fastqps._core import IDLES, METHODS, REJECTS, STAGES, TRANSPORT_COUNTERS
from fastqps.telemetry.live import PAGE, Sampler, remote
from fastqps.telemetry.live.counts import _UPSTREAM, Counts, _merged
from fastqps.telemetry.live.remote import FetchError
from fastqps.telemetry.live.sampler import COLUMNS
from fastqps.telemetry.live.spread import Spread, spread
from fastqps.telemetry.live.view import view
from fastqps.telemetry.metrics.meter import Load
from fastqps.terminal import shown

SECOND = 10**9
BAD_PAIRS = ([5000, 1], [-1, 1], [320, 1], [1], [], [1, 2, 3], [1, 10**30], [1, -1])


def idle_server() -> fake_source.FakeSource:
    """Two doors and three dispatchers whose counters a test changes."""
    return fake_source.FakeSource(*(fake_source.process() for _ in range(5)))


def busy_door() -> SimpleNamespace:
    items = np.zeros((16, 17), dtype=np.uint64)
    items[0, 0], items[1, 0], items[0, 8] = 300, 100, 20
    requests = np.zeros((16, len(METHODS), 17), dtype=np.uint64)
    requests[0, 0, 0], requests[0, METHODS.index("other"), 0] = 50, 9
    return fake_source.process(
        {"inflight_ns": 6 * SECOND, "queue_wait_ns": 2 * SECOND}, items=items, requests=requests,
        request=fake_source.requests_of(fake_source.histogram(*[100_000] * 99, 10**9)),
        rejected={**dict.fromkeys(REJECTS, 0), "queue_full": 20}, expired={**dict.fromkeys(STAGES, 0), "queue": 4},
        transport={**dict.fromkeys(TRANSPORT_COUNTERS, 0), "bytes_in": 2_000, "bytes_out": 8_000},
    )  # fmt: skip


def test_what_happened_between_two_looks() -> None:
    """In two seconds; a reload has replaced dispatcher 1, whose counters stay."""
    seen = idle_server()
    seen.filled = lambda: {0: True, 2: False}  # type: ignore[method-assign]
    before = counts(seen, devices={"cpu": 0})
    seen.all[0] = busy_door()
    seen.all[2] = fake_source.process(
        {
            "busy_ns": 3 * SECOND, "steps": 10, "step_items": 400, "step_tokens": 60, "step_capacity_tokens": 80,
            "generated_tokens": 700, "awake_ns": SECOND // 2,
        },
        idle_ns={**dict.fromkeys(IDLES, 0), "no_work": SECOND}, batch_items=fake_source.histogram(30, 50),
        batch_tokens=fake_source.histogram(240),
    )  # fmt: skip
    found = view(before, counts(seen, 2.0, load=LOAD, devices={"cpu": SECOND}))
    assert found.seconds == 2 and found.load == LOAD
    assert found.codes == {"OK": 200, "RESOURCE_EXHAUSTED": 10}
    assert (found.calls, found.refused, found.expired) == (25, {"queue_full": 10}, 2)
    assert found.in_flight == 3 and found.queued == 1  # 6 and 2 item-seconds in 2 s
    assert found.latency.p50 == pytest.approx(100, rel=0.125)
    assert found.latency.p99 == pytest.approx(100, rel=0.125)
    assert found.latency.mean == pytest.approx((99 * 100 + 1e6) / 100) and found.latency.count == 100
    assert found.degraded == ["dispatcher 1 (cpu) is not ready"] and found.ready
    first, second = found.models
    assert first.waiting == 10 and first.oldest >= 0
    assert first.waiting_by_class == {"high": 3, "normal": 7}
    assert (first.batch_items, first.batch_tokens, first.fill, first.tokens_made) == (40, 240, 0.75, 350)
    assert (first.cache_slots, first.cache_used, second.cache_slots) == (100, 6, 0)
    assert (second.batch_items, second.fill, second.tokens_made) == (None, None, None)
    dispatcher, other = found.dispatchers
    assert (dispatcher.busy, dispatcher.idle["no_work"], sum(dispatcher.idle.values())) == (0.75, 0.25, 0.25)
    assert (dispatcher.steps, dispatcher.items, dispatcher.awake) == (5, 200, 0.25)
    assert (other.index, other.model, other.ready, other.busy, other.idle) == (2, seen.models[1], False, None, {})
    assert found.devices == {"cpu": 0.5}
    door = found.doors[0]
    assert (door.index, door.ready, door.connections, door.received, door.sent) == (0, True, 3, 1_000, 4_000)
    json.dumps(asdict(found), allow_nan=False)


def test_counters_that_seem_to_shrink_are_no_negative_rates() -> None:
    seen = idle_server()
    seen.all[0] = busy_door()
    before = counts(seen)
    seen.all[0] = fake_source.process()
    found = view(before, counts(seen, 2.0))
    assert found.codes == {} and found.calls == 0 and found.latency.p99 is None


def test_counters_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """With texts as a terminal can show them; what is no such document is refused."""
    seen = idle_server()
    seen.all[0] = busy_door()
    sampler, pages = Sampler(seen, lambda: cast(Load, LOAD)), [b""]
    monkeypatch.setattr(remote, "fetch", lambda *_: pages[-1])
    pages.append(sampler.counts())
    found = remote.fetch_counts("h:1")
    assert found["models"][1]["name"] == shown(seen.models[1]) != seen.models[1]
    assert found["request"] == counts(seen)["request"]
    whole = json.loads(pages[-1])
    less = {key: value for key, value in whole["stages"].items() if key != "queue"}
    model = whole["models"][0]
    upstream = dict.fromkeys(_UPSTREAM, 0) | {"name": "", "state": "", "reason": "", "counts": {}}
    changes: list[dict[str, object]] = [
        {"at_ns": "x"}, {"stages": "x"}, {"stages": less}, {"stages": whole["stages"] | {"x": whole["request"]}},
        {"hop": {}}, {"upstreams": [upstream]},
        *({"request": {"sum": 1, "buckets": [pair]}} for pair in BAD_PAIRS),
        *({key: {name: {"sum": 1, "buckets": [[5000, 1]]} for name in whole[key]}} for key in ("stages", "hop")),
        *({"models": [model | {key: {"sum": 1, "buckets": [[5000, 1]]}}]} for key in ("items", "tokens")),
    ]  # fmt: skip
    for wrong in (b"no JSON", b"null", *(json.dumps(whole | change).encode() for change in changes)):
        pages.append(wrong)
        with pytest.raises(FetchError, match="is not a fastqps server of this version"):
            remote.fetch_counts("h:1")
    pages.append(json.dumps(whole | {"version": "0.0.9", "stages": {}}).encode())
    with pytest.raises(FetchError, match=r"the server at h:1 has version 0\.0\.9, not"):
        remote.fetch_counts("h:1")


def test_readings_of_which_one_has_more() -> None:
    """What was not there before has no rates yet."""
    after = counts(idle_server(), 2.0, devices={"cpu": SECOND})
    less = after | {"doors": after["doors"][:1], "devices": {}, "models": [], "dispatchers": []}
    found = view(cast(Counts, less), after)
    assert found.devices == {"cpu": 0} and len(found.doors) == 2 and found.doors[1].received == 0


def test_history_is_bounded_and_has_the_columns() -> None:
    sampler = Sampler(idle_server(), lambda: cast(Load, LOAD))
    assert json.loads(sampler.now) is None and json.loads(sampler.history())["lines"] == []
    for _ in range(310):
        sampler.sample()
    history = json.loads(sampler.history())
    assert history["columns"] == list(COLUMNS) and len(history["lines"]) == 300
    assert all(len(line) == len(COLUMNS) for line in history["lines"])
    assert history["lines"][0][COLUMNS.index("saturation")] == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(10, 2, 500).astype(int)
    empty, full = _merged([]), _merged([fake_source.histogram(*values.tolist())])
    found = spread(empty, full)
    for q, value in ((0.5, found.p50), (0.9, found.p90), (0.95, found.p95), (0.99, found.p99)):
        exact = np.quantile(values, q, method="inverted_cdf")
        assert value == pytest.approx(exact, rel=0.126)
    assert spread(full, full) == Spread()


def test_the_page_needs_nothing_else() -> None:
    text = PAGE.decode()
    assert "{{" not in text
    assert set(re.findall(r'(?:src|href)="([^"]*)"', text)) == {"data:,", "/metrics"}
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "innerHTML" not in text, "what a server says is text, never markup"


CUT_OFF = (
    "return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
    ".map((e) => `${e.firstChild.id} ${e.scrollWidth} of ${e.clientWidth}`)"
)


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_browser_shows_load_a_death_and_an_end(tmp_path: Path) -> None:
    with Browser() as browser:
        server = Server("--dispatchers=2")
        try:
            _watch(browser, server)
            browser.picture(tmp_path / "live.png")
            with Browser(width=500) as phone:  # a window's least; the page is narrower still
                phone.open(f"http://{server.admin}/live")
                phone.until("return document.querySelectorAll('#dispatchers tbody tr').length == 3")
                phone.run("document.body.style.width = '400px'")
                assert phone.run(CUT_OFF) == []
        finally:
            server.stop()
        browser.until("return document.getElementById('status').innerText.startsWith('no answer')")
        assert browser.run("return document.body.classList.contains('stale')")


def _watch(browser: Browser, server: Server) -> None:
    over = threading.Event()
    load = threading.Thread(target=_load, args=(server.address, over))
    load.start()
    try:
        browser.open(f"http://{server.admin}/live")
        browser.until("return document.querySelector('.tile b')?.innerText.match(/[1-9]/)")
        browser.until("return document.querySelector('.tile').innerText.includes('all OK')")
        browser.until("return document.querySelector('.tile:nth-child(3)').innerText.match(/\\d (µs|ms|s)/)")  # p99
        browser.until("return document.querySelectorAll('#charts path').length >= 4")
        assert browser.run("return document.querySelectorAll('#stages tbody tr').length") == len(STAGES)
        assert browser.run("return document.querySelectorAll('#dispatchers tbody tr').length") == 3
        assert "minilm" in browser.text("#about")
        browser.until("return document.getElementById('status').innerText === 'ready'")
        server.child("dispatcher 0").send_signal(signal.SIGKILL)
        browser.until("return document.getElementById('status').innerText.endsWith('Restarts of dispatchers: 1')")
        browser.run("document.getElementById('pause').click()")
        assert browser.text("#pause") == "Go on"
        assert browser.complaints() == []
    finally:
        over.set()
        load.join()


def _load(address: str, over: threading.Event) -> None:
    with fastqps.Client(address, timeout_s=PATIENCE_S) as client:
        while not over.is_set():
            client.embed(["one", "two", "three"])
