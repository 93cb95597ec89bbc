"""Fixtures, and what the report of a failing test holds. Each server must end cleanly; none outlives its test."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interpreter import interpret_kernels
from serving import Server

interpret_kernels()

# Programs inherit what is ignored here: SIGHUP under nohup, SIGINT behind an & in a script.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


ROOT = Path(__file__).parent.parent
SERVERS = pytest.StashKey[list[Server]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """With a failure goes what its servers wrote, and where they stood: it may not come again."""
    report = yield
    if report.failed:
        shared = (value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Server))
        for server in dict.fromkeys([*item.stash.get(SERVERS, []), *shared]):
            report.sections.append((f"server {server.pid}", server.account()))
    return report


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test works in its own folder. What it starts from there is of this tree, whatever else is installed."""
    monkeypatch.chdir(tmp_path)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """Starts a server for this test: ``serve("--frontdoors=2", echo=True)``. At the end it drains and must be gone.

    ``kind``: a class of servers instead of the usual one.
    """
    servers = request.node.stash.setdefault(SERVERS, [])

    def start(*arguments: Any, kind: type[Server] = Server, **options: Any) -> Server:
        servers.append(kind(*arguments, **options))
        return servers[-1]

    yield start
    try:
        for server in servers:
            server.stop()
    finally:
        for server in servers:
            server.kill()
