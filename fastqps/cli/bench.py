"""``fastqps bench MODE``: measures a server. Flags after ``--`` are those of ``fastqps serve``."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from fastqps.bench.flags import add_common
from fastqps.bench.measure.target import Access
from fastqps.bench.modes import MODES, mode
from fastqps.cli import serve, server_flags
from fastqps.cli.parser import ArgumentParser
from fastqps.config import SETTINGS
from fastqps.errors import ConfigError, FastqpsError


def add_arguments(parser: ArgumentParser) -> None:
    """A parser for each mode."""
    parser.epilog = "Flags of fastqps serve may follow behind --: fastqps bench rate --rate 1000 -- --dispatchers 2"
    modes = parser.add_subparsers(dest="mode", metavar="MODE", required=True)
    for name, answers in MODES.items():
        own = modes.add_parser(name, help=answers, description=f"{answers[0].upper()}{answers[1:]}.")
        add_common(own)
        server_flags.add_arguments(own)
        own.passed_on = {f"--{setting.key}" for setting in SETTINGS}
        mode(name).add_arguments(own)


def run(options: argparse.Namespace) -> int:
    """One of the codes in fastqps.errors."""
    settings, config_file = serve_flags(options.passed_on)
    command = shlex.join(["fastqps", *sys.argv[1:]])
    try:
        import matplotlib  # noqa: F401  draws the report when all is measured: too late to learn that it is missing

        from fastqps.bench.modes.session import run_mode
    except ImportError as error:
        if (error.name or "").startswith("fastqps"):
            raise
        raise FastqpsError(f"fastqps bench needs {error.name}; install it with: pip install 'fastqps[bench]'") from None
    server_flags.check_flags(options)
    access = Access(**server_flags.client_options(options), token_file=options.token_file or "")
    return run_mode(options, settings, config_file, command, access)


def serve_flags(arguments: list[str]) -> tuple[dict[str, Any], str]:
    """(settings by key, configuration file) of flags of ``fastqps serve``."""
    parser = ArgumentParser(prog="fastqps serve")
    serve.add_arguments(parser)
    options, unknown = parser.parse_known_args(arguments)
    if unknown or options.print_config:
        raise ConfigError(
            f"behind -- stand flags of fastqps serve; {(unknown or ['--print-config'])[0]} is none for this"
        )
    named = {setting.key: getattr(options, setting.key.replace("-", "_")) for setting in SETTINGS}
    return {key: value for key, value in named.items() if value is not None}, options.config or ""
