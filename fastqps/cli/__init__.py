"""The ``fastqps`` command: one file for each subcommand, imported when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fastqps import __version__
from fastqps._native import stale
from fastqps.cli import peers
from fastqps.cli.parser import ArgumentParser
from fastqps.errors import FAILURE, INTERRUPTED, FastqpsError, lack_of_memory
from fastqps.terminal import Level, plainly, say, say_to

COMMANDS = {
    "serve": "serve models over gRPC and HTTP",
    "bench": "measure a server: rates, latencies, where time goes, which settings to run",
    "predict": "run a model on some text and print JSON lines",
    "card": "write what an edge needs of a model: no weights",
    "top": "watch a running server",
    "doctor": "what this machine has and lacks, and what to do about it",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Errors that a user can act on are one line on stderr."""
    say_to(plainly)
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except FastqpsError as error:
        say(f"fastqps: {error}", Level.ERROR)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; say nothing at exit either
        return FAILURE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        reason = stale(error) or lack_of_memory(error)
        if reason is None:
            raise
        say(f"fastqps: {reason}", Level.ERROR)
        return FAILURE


def _run(arguments: list[str]) -> int:
    passed_on: list[str] = []
    if "bench" in arguments[:1] and "--" in arguments:  # what follows is not for us, but for the server that it starts
        at = arguments.index("--")
        arguments, passed_on = arguments[:at], arguments[at + 1 :]
    if arguments and _means_serve(arguments[0]):
        arguments = ["serve", *arguments]
    parser = ArgumentParser(prog="fastqps", description="Serves small, fast models at very high request rates.")
    parser.add_argument("--version", action="version", version=f"fastqps {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    module: ModuleType | None = None
    for name, help in COMMANDS.items():
        command = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        if name == ("serve" if chosen in peers.COMMANDS else chosen):
            module = import_module(f"fastqps.cli.{name}")
            module.add_arguments(command)
            if name == "serve":
                module.choose_form(arguments)
                import_module("fastqps.cli.foreign").refuse(arguments, command.needs_value())
    options = parser.parse(arguments)
    options.passed_on = passed_on
    assert module is not None  # the parser has refused everything that is no command
    return int(module.run(options))


def _means_serve(first: str) -> bool:
    """Whether the first argument is a model or a flag of ``serve``, as in ``docker run IMAGE MODEL``."""
    if first in COMMANDS or first in ("-h", "--help", "--version"):
        return False
    from fastqps.models.names import PACKAGED  # it reads checkpoints, which few commands do

    return first.startswith("-") or any(mark in first for mark in "/=:") or Path(first).is_dir() or first in PACKAGED
