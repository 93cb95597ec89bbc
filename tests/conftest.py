"""Fixtures, and what the report of a failing test holds. Each server must end cleanly; none outlives its test."""

import asyncio
import gc
import inspect
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interpreter import interpret_kernels
from paths import ROOT
from serving import Server, ended_at_last

pytest_plugins = ("figures",)

# Programs inherit what is ignored here: SIGHUP under nohup, SIGINT behind an & in a script.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


SERVERS = pytest.StashKey[list[Server]]()
POOL: dict[tuple[Any, ...], Server] = {}  # the servers of ``shared_server``, by their flags


def pytest_sessionstart(session: pytest.Session) -> None:
    """Not where tests are only handed out to other processes: it imports torch."""
    if not session.config.getoption("numprocesses", None):
        gc.disable()  # a third of the time of imports
        interpret_kernels()


def pytest_collection_finish() -> None:
    """Imports stay: the collections of garbage that tests ask for need not go through their million objects."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, the files of all protocols go to one worker as if they were one: they share servers."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByServers(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            shared = "tests/e2e/protocols/"
            return shared if nodeid.startswith(shared) else str(super()._split_scope(nodeid))

    return ByServers(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """With a failure goes what its servers wrote, and where they stood: it may not come again."""
    report = yield
    if report.failed:
        given = (getattr(value, "server", value) for value in getattr(item, "funcargs", {}).values())
        shared = (value for value in given if isinstance(value, Server))
        for server in dict.fromkeys([*item.stash.get(SERVERS, []), *shared]):
            report.sections.append((f"server {server.pid}", server.account()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[Any]:
    """A command that a test runs in this process may block signals, which programs of later tests would inherit."""
    mask, ends = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGTERM)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGTERM, ends)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
    """Shared servers end with the tests of a folder: one that idles takes two hundredths of a core."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            servers = [*POOL.values()]
            POOL.clear()
            with ended_at_last(servers):
                pass


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**given))
    return True


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute with one thread of torch: small models lose with every further one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def round_as_a_gpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round to float8 correctly: Triton's interpreter loses the carry into the next power of two, so 127 becomes 64."""
    import numpy as np
    import torch
    from triton.runtime import interpreter

    convert = interpreter._convert_float

    def rounded(values: Any, source: Any, target: Any, mode: Any) -> Any:
        if target.name != "fp8e4nv" or source.name != "fp32":
            return convert(values, source, target, mode)
        return torch.from_numpy(np.ascontiguousarray(values)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()

    monkeypatch.setattr(interpreter, "_convert_float", rounded)


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
    servers: list[Server] = []
    shown = request.node.stash.setdefault(SERVERS, [])

    def start(*arguments: Any, kind: type[Server] = Server, **options: Any) -> Server:
        servers.append(kind(*arguments, **options))
        shown.append(servers[-1])
        return servers[-1]

    yield start
    try:
        for server in servers:
            server.stop()
    finally:
        for server in servers:
            server.kill()


@pytest.fixture(scope="module")
def module_server() -> Iterator[Callable[..., Server]]:
    """Starts a server for all tests of a module, as ``serve`` does for one. At the end nothing may be left in it."""
    servers: list[Server] = []

    def start(*flags: str, **options: Any) -> Server:
        servers.append(Server(*flags, **options))
        return servers[-1]

    with ended_at_last(servers):
        yield start


@pytest.fixture(scope="session")
def pooled_server() -> Callable[..., Server]:
    """The server with these flags: ``shared_server`` for fixtures of several tests, which check it themselves."""

    def find(*flags: str, echo: bool = False) -> Server:
        key = (*flags, echo)
        if key not in POOL:
            POOL[key] = Server(*flags, echo=echo)
        return POOL[key]

    return find


@pytest.fixture
def shared_server(
    request: pytest.FixtureRequest, pooled_server: Callable[..., Server]
) -> Iterator[Callable[..., Server]]:
    """The server with these flags, for all tests of a folder: ``shared_server("--frontdoors=1", echo=True)``.

    A test that kills, stops or drains processes asks for its own (``serve``). After each test nothing may be left in
    the server, and none of its processes may have died. Otherwise the next test gets a new one.
    """
    used = set()

    def find(*flags: str, echo: bool = False) -> Server:
        server = pooled_server(*flags, echo=echo)
        used.add((*flags, echo))
        request.node.stash.setdefault(SERVERS, []).append(server)
        return server

    yield find
    for key in used:
        server = POOL.pop(key)
        try:
            server.until_idle()
            restarts = {name: n for name, n in server.metrics().items() if name.startswith("fastqps_restarts_total")}
            assert not any(restarts.values()), f"{restarts}\n{server.log()}"
        except BaseException:
            server.kill()
            raise
        POOL[key] = server
