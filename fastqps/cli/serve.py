"""``fastqps serve``."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType

from fastqps.cli.setting_flags import add_all_settings, given_settings
from fastqps.config import Loaded, decide, load
from fastqps.config.document import effective_toml
from fastqps.config.sources import PLATFORM_PORTS
from fastqps.errors import OK
from fastqps.terminal import as_json, say, say_to


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every setting of the table, ``--config`` and ``--print-config``. Values stay text here; config checks them."""
    parser.usage = f"{parser.prog} [OPTION ...] [MODEL ...]"
    parser.add_argument("models", nargs="*", metavar="MODEL", help="the same as --model MODEL")
    parser.add_argument(
        "--config", metavar="FILE", help="TOML file with settings (default: ./fastqps.toml, if present)"
    )
    parser.add_argument("--print-config", action="store_true", help="print the effective settings and exit")
    add_all_settings(parser)


def choose_form(arguments: Sequence[str]) -> None:
    """Says in JSON from now on if a flag or the environment asks for it: also what is wrong with the settings. A file
    counts once the settings are read."""
    flag, form = "--log-format", os.environ.get("FASTQPS_LOG_FORMAT", "")
    for argument, following in itertools.pairwise((*arguments, "")):
        if argument.partition("=")[0] == flag:
            form = following if argument == flag else argument.partition("=")[2]
    if form == "json":
        say_to(as_json)


def run(options: argparse.Namespace) -> int:
    """Serves until a signal ends it; one of the codes in fastqps.errors."""
    # Until the supervisor takes it: the first process of a container is not ended by a signal that nobody handles, and
    # reading the models may take minutes.
    signal.signal(signal.SIGTERM, _end)
    options.model = [*options.models, *(options.model or ())] or None
    loaded = load(given_settings(options), os.environ, options.config)
    if loaded.config.log_format == "json":
        say_to(as_json)
    config = decide(loaded.config)
    if options.print_config:
        print(effective_toml(Loaded(config, loaded.origin)), end="")
        return OK
    from fastqps.supervisor.server.serve import serve

    return serve(config, notes=[*_port_notes(loaded), *_notes(loaded.config.device)])


def _end(number: int, frame: FrameType | None) -> None:
    """Nothing is served yet and nothing started: there is nothing to drain or to end. Not by an exception: whatever is
    imported or read just now might make another one of it."""
    if number in signal.pthread_sigmask(signal.SIG_BLOCK, ()):  # another thread has let it in: it waits on this one
        signal.pthread_kill(threading.get_ident(), number)
        return
    with contextlib.suppress(RuntimeError):  # the line that it has interrupted
        say("fastqps: SIGTERM: ended before anything was served")
    os._exit(OK)


def _port_notes(loaded: Loaded) -> list[str]:
    variable = loaded.origin.get("port")
    return [f"--port {loaded.config.port} is from {variable}"] if variable in PLATFORM_PORTS else []


def _notes(device: str) -> list[str]:
    """Why ``--device auto`` has become what it is."""
    from fastqps.devices import choose_device

    if device != "auto":
        return []
    choice = choose_device()
    return [f"--device auto takes {choice.device}: {choice.reason}"]
