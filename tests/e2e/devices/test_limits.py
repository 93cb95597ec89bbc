"""Limits that are changed while a server serves: POST /limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import sees
from checkpoints import write_checkpoint
from fake_cuda import environment
from generators import write_generator
from ledger import OK, Ledger, stub_to, unary
from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps

Serve = Callable[..., Server]


def limit(server: Server, **asked: Any) -> dict[str, Any]:
    status, found = server.post("/limits", asked)
    assert status == 200, found
    return found


def items_of_steps(server: Server, client: fastqps.Client) -> float:
    """The mean of the steps that answer 96 items at once."""
    server.until_idle()
    before = server.metrics()
    client.predict_batch([[5, 6, 7]] * 96)
    until(lambda: server.metrics()["fastqps_batch_items_sum"] == before["fastqps_batch_items_sum"] + 96, "counted")
    after = server.metrics()
    return 96 / (after["fastqps_batch_items_count"] - before["fastqps_batch_items_count"])


def test_limits_where_the_server_chose_the_lanes(serve: Serve, tmp_path: Path) -> None:
    """Each model of a GPU has lanes of its own: an encoder two, a generator one."""
    write_checkpoint(tmp_path / "e", "bert", num_hidden_layers=1)
    write_generator(tmp_path / "g", num_hidden_layers=1)
    models = (f"--model=e={tmp_path / 'e'}", f"--model=g={tmp_path / 'g'}")
    sizes = ("--max-batch-items=8", "--max-running=4", "--max-batch-tokens=128", "--max-input-tokens=32")
    server = serve(*models, *sizes, "--device=cuda:0", "--max-output-tokens=8", env=environment())
    assert [(each["model"], each["lanes"], each["most"]["lanes"]) for each in server.limits()] == [
        ("e", 2, 2), ("g", 1, 1),
    ]  # fmt: skip
    assert limit(server, model="e", lanes=1)["lanes"] == 1
    assert limit(server, model="g", running=2)["running"] == 2
    status, found = server.post("/limits", {"model": "g", "lanes": 2})
    assert status == 400 and "between 1 and 1" in str(found)


def test_steps_hold_as_many_items_as_are_allowed_now(serve: Serve, tmp_path: Path) -> None:
    """Also those of a dispatcher that was started again. A reload returns to the settings of the start."""
    write_checkpoint(tmp_path / "m", "bert", num_hidden_layers=1)
    write_checkpoint(tmp_path / "next", "bert", num_hidden_layers=2)
    device = "--device=sim:" + write_profile(tmp_path / "p.toml", {"fixed_us": 2000, "per_token_us": 0})
    server = serve(f"--model=m={tmp_path / 'm'}", device, "--dispatchers=2", "--max-batch-items=16", "--lanes=2")
    most = {"running": None, "items": 16, "lanes": 2, "async_steps": True}
    assert server.limits() == [{"model": "m", **most, "most": most}]
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        found = limit(server, items=2, lanes=1, async_steps=False)
        assert found == {"model": "m", **most, "items": 2, "lanes": 1, "async_steps": False, "most": most}
        assert server.limits() == [found]
        assert items_of_steps(server, client) <= 2
        old = server.child("dispatcher 0")
        old.kill()
        server.until_filled("dispatcher 0", old)
        assert items_of_steps(server, client) <= 2
        limit(server, items=16)
        assert items_of_steps(server, client) > 2
        limit(server, items=2)
        status, reloaded = server.reload(**{"model": "m", "from": str(tmp_path / "next")})
        assert status == 200, reloaded
        assert server.limits() == [{"model": "m", **most, "most": most}]
        assert items_of_steps(server, client) > 2


async def test_a_lane_that_is_opened_again_takes_what_waits_at_once(serve: Serve) -> None:
    """Its dispatcher sleeps until a step ends, but for the change."""
    server = serve("--dispatchers=1", "--lanes=2", "--canary-interval=0", echo=True)  # canaries wake it, too
    limit(server, lanes=1)
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            slow = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(lambda: server.claimed(1), "it runs")
            others = [asyncio.create_task(unary(stub, ledger)) for _ in range(20)]
            await sees(lambda: server.work()["fastqps_requests_waiting"] == 20, "others wait")
            await asyncio.to_thread(limit, server, lanes=2)
            assert set(await asyncio.gather(*others)) == {OK}
            assert not slow.done()
        assert await slow == OK
    ledger.check()


async def test_sequences_that_run_end_and_fewer_follow(serve: Serve, tmp_path: Path) -> None:
    """The metrics follow the limits, in both directions."""
    model = write_generator(tmp_path / "g")
    flags = ("--device=cpu", "--dtype=float32", "--max-output-tokens=64", "--max-running=3", "--dispatchers=1")
    server = serve(f"--model={model}", *flags, "--lanes=2")

    def runs(count: int) -> None:
        wanted = {"fastqps_cache_slots": count, "fastqps_cache_slots_used": count}
        until(lambda: wanted.items() <= server.metrics().items(), f"{count} run")

    async with fastqps.AsyncClient(server.address, timeout_s=PATIENCE_S) as client:

        async def endless() -> None:
            while True:
                await client.generate("for ever", max_tokens=64, ignore_eos=True)

        running = [asyncio.create_task(endless()) for _ in range(9)]
        await asyncio.to_thread(runs, 6)
        limit(server, running=2)
        await asyncio.to_thread(runs, 4)
        limit(server, lanes=1, async_steps=False)
        await asyncio.to_thread(runs, 2)
        limit(server, running=3, lanes=2, async_steps=True)
        await asyncio.to_thread(runs, 6)
        assert not any(task.done() for task in running), "nothing was killed"
        for task in running:
            task.cancel()
    server.until_idle()
