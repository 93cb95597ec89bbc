"""From a configuration to a running server, and back to an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence

from fastqps.admin import Admin
from fastqps.config import Config
from fastqps.config.decide import server_cpus
from fastqps.config.edge import REMOTE, upstream_files
from fastqps.config.settings import OFF
from fastqps.devices.names import resolve_dtype
from fastqps.errors import ConfigError, FastqpsError
from fastqps.models import ModelCard
from fastqps.process.credentials import UpstreamFiles
from fastqps.supervisor.credentials.files import CredentialFiles, exposures
from fastqps.supervisor.credentials.watch import CredentialWatch
from fastqps.supervisor.generation import first_generations
from fastqps.supervisor.gpu.holder import Holder
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.listener import address, bind, listen
from fastqps.supervisor.log import STDERR, SUPERVISOR, Log
from fastqps.supervisor.outcome import SIGNALS
from fastqps.supervisor.plan import Plan, doubts, make_plan
from fastqps.supervisor.room import Room, format_size
from fastqps.supervisor.run_directory import RunDirectory
from fastqps.supervisor.server.supervisor import Supervisor
from fastqps.supervisor.shared import Shared
from fastqps.telemetry.tracing import Tracing, find_endpoint
from fastqps.terminal import Level, say_to

FILES_MIN = 256  # for at most 32 front doors and 64 dispatchers with their eventfds, and some clients


def serve(config: Config, notes: Sequence[str] = ()) -> int:
    """Serves until a signal ends it; the exit code. ``config`` is decided. Raises ``FastqpsError`` before the start.

    ``notes``: what there is to say about the settings, to log.
    """
    import setproctitle

    setproctitle.setproctitle("fastqps: supervisor")
    _fill_standard_descriptors()
    os.sched_setaffinity(0, server_cpus(config))
    _raise_file_limit()
    collector, tracing_note = find_endpoint(config.otlp_endpoint, os.environ)
    config = dataclasses.replace(config, otlp_endpoint=collector)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bind(config.host, config.port, "--port"))
        http = (
            stack.enter_context(bind(config.host, config.http_port, "--http-port")) if config.http_port != OFF else None
        )
        admin = stack.enter_context(bind(config.admin_host, config.admin_port, "--admin-port", "--admin-host"))
        credentials = CredentialWatch(CredentialFiles.of(config))
        of_upstreams = UpstreamFiles(*upstream_files(config))
        of_upstreams.token(), of_upstreams.pem()  # dispatchers read them; here a fault ends the start
        log = stack.enter_context(contextlib.closing(Log(STDERR, config.log_format, Level[config.log_level.upper()])))
        stack.callback(say_to, say_to(lambda level, line: log.event(SUPERVISOR, line, level)))

        def say(*lines: str) -> None:
            for line in filter(None, lines):
                log.info(line)

        say(*notes, tracing_note)
        server = make_plan(config)
        shared = stack.enter_context(contextlib.closing(Shared(server, credentials.vault.fd, http, address(admin))))
        say(_describe(server, shared))
        for exposure in exposures(config):
            log.warning(exposure)
        for card in server.cards:
            for warning in card.warnings:
                log.warning(f"{card.name}: {warning}")
        if not server.reloads:
            log.info(f"no model can be reloaded: {server.dispatchers} dispatchers leave no worker slot free")
        for doubt in doubts(server.capacity, server.config, server.cards[0].version) if server.capacity else ():
            log.warning(doubt)
        # Signals are blocked until they are handled, because from here on there are files to remove.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        sharings = _sharings(server, log, stack)
        if config.share_weights:
            _add_holders(sharings, server, shared, log, stack)
        tracing = _tracing(server, shared, log)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            try:
                return runner.run(_run(server, shared, listener, admin, log, sharings, credentials, tracing))
            except FastqpsError as error:  # after the start, errors are log events
                log.error(str(error))
                return error.exit_code


async def _run(
    server: Plan,
    shared: Shared,
    listener: socket.socket,
    admin_socket: socket.socket,
    log: Log,
    sharings: Mapping[int, Sharing],
    credentials: CredentialWatch,
    tracing: Tracing | None,
) -> int:
    # Listen here: another server may have bound the port, too, and the event loop's error would not name it.
    listen(admin_socket, "--admin-port")
    supervisor = Supervisor(server, shared, listener, log, credentials, sharings, tracing)
    supervisor.workers.set_routes()
    async with Admin(supervisor.view, admin_socket, log.info) as admin:
        supervisor.depend_on(admin.sampling)
        return await supervisor.run(f"http://{address(admin_socket)}")


def _tracing(server: Plan, shared: Shared, log: Log) -> Tracing | None:
    """What reads the records of calls; None if there are none."""
    if not server.config.otlp_endpoint and not server.config.access_log:
        return None
    models = [card.name for card in server.cards]
    return Tracing(server.config.otlp_endpoint, shared.segment, models, log.warning, log.access)


def _sharings(server: Plan, log: Log, stack: contextlib.ExitStack) -> dict[int, Sharing]:
    """The sharing of each GPU, by the index of its device."""
    gpus = {i: device for i, device in enumerate(server.devices) if device.gpu}
    if not gpus:
        return {}
    try:
        run = stack.enter_context(contextlib.closing(RunDirectory(log)))
    except OSError as error:
        raise ConfigError(f"no directory for the sockets of MPS can be made: {error}; set TMPDIR") from None
    processes = server.dispatchers_each * len(server.cards)
    return {i: Sharing(device, processes, server.config.mps, run, log) for i, device in gpus.items()}


def _add_holders(
    sharings: Mapping[int, Sharing], server: Plan, shared: Shared, log: Log, stack: contextlib.ExitStack
) -> None:
    """Adds a weight holder for each GPU and model."""
    for number, (device, first) in enumerate(itertools.product(sharings, first_generations(server))):
        holder = stack.enter_context(contextlib.closing(Holder(number, first, device, server, shared, log)))
        sharings[device].holders.append(holder)


def _fill_standard_descriptors() -> None:
    """Opens /dev/null for a missing stdin, stdout or stderr. Otherwise a socket could get its number, and a child's
    output would go to a client."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(fd, True)
    os.close(fd)


def _raise_file_limit() -> None:
    """Raises the limit of open files, since each connection is one. Raises ``ConfigError`` if few would be left for
    clients."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < FILES_MIN:
        raise ConfigError(f"at most {files} files may be open; a server needs {FILES_MIN} (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _describe(server: Plan, shared: Shared) -> str:
    models = ", ".join(map(_describe_model, server.cards, server.rooms))
    config = server.config
    lanes = " or ".join(sorted({str(room.lanes) for room in server.rooms}))  # by model
    if config.device == REMOTE:
        each = f", connections of each to an upstream {lanes}, upstreams {', '.join(config.upstream)}"
    else:
        each = f", lanes of each {lanes}" if lanes != "1" else ""
        each += f", threads of each {server.threads}"
    processes = f"front doors {server.doors}, dispatchers {server.dispatchers}{each}"
    devices = ", ".join(device.description for device in server.devices)
    dtype = resolve_dtype(config.device, config.dtype)
    computes = f" in {dtype}" if dtype != "auto" and not all(card.static for card in server.cards) else ""
    return f"starting {models} on {devices}{computes}: {processes}; shared memory {shared.sizes_text}"


def _describe_model(card: ModelCard, room: Room) -> str:
    """Describes a model for the log; a generator with the capacity of each lane."""
    name = f"{card.name}@{card.version}"
    if not room.running:
        return name
    prefix = f", prefix of {len(card.prefix_ids)} tokens" if card.prefix_ids else ""
    cache = f"; KV cache {format_size(room.kv_bytes)}" if room.kv_bytes else ""
    most = "at most " if room.choose else ""
    return f"{name} (a dispatcher runs {most}{room.running} sequences{prefix}{cache})"
