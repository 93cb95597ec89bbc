"""``fastqps top``."""

from __future__ import annotations

import argparse
import sys

from fastqps.config.units import parse_duration
from fastqps.errors import OK, ConfigError, FastqpsError
from fastqps.telemetry.top.plain import follow
from fastqps.telemetry.top.watch import Watch

INTERVAL_LEAST_NS, INTERVAL_MOST_NS = 10**8, 3600 * 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, how often, and how."""
    parser.add_argument(
        "--admin", metavar="HOST:PORT", default="127.0.0.1:9464", help="admin port of the server (default: %(default)s)"
    )
    parser.add_argument(
        "--interval", metavar="DURATION", default="1s", help="time between two looks (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="show one interval and end")
    parser.add_argument("--plain", action="store_true", help="lines of name=value, as where there is no terminal")


def run(options: argparse.Namespace) -> int:
    """0, also when the user has ended it; 1 where no server answers."""
    interval_s = _interval_s(options.interval)
    try:
        watch = Watch(options.admin)
        if options.plain or not sys.stdout.isatty():
            follow(watch, interval_s, once=options.once)
        else:
            _show(watch, interval_s, once=options.once)
    except KeyboardInterrupt:
        pass
    return OK


def _show(watch: Watch, interval_s: float, *, once: bool) -> None:
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        raise FastqpsError("the live view needs the package rich: pip install 'fastqps[bench]', or --plain") from None
    from fastqps.telemetry.top.screen import show, show_once

    console = Console(highlight=False)
    if console.is_dumb_terminal:
        follow(watch, interval_s, once=once)
    elif once:
        show_once(watch, interval_s, console)
    else:
        show(watch, interval_s, console)


def _interval_s(text: str) -> float:
    try:
        interval_ns = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--interval: {error}") from None
    if not INTERVAL_LEAST_NS <= interval_ns <= INTERVAL_MOST_NS:
        raise ConfigError(f"--interval {text}: not between 100ms and 1h")
    return interval_ns / 1e9
