"""The flags that all modes share, and what they mean together."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.slo import Slo
from fastqps.bench.measure.workload import Workload, parse_call
from fastqps.config.units import parse_duration
from fastqps.errors import ConfigError
from loadgen import units
from loadgen.errors import UsageError

# Name, metavar, default, which says the type, and help.
_Flag = tuple[str, str, str | int, str]
_SERVER: tuple[_Flag, ...] = (
    ("--address", "HOST:PORT", "", "measure this server"),
    ("--admin", "HOST:PORT", "", "its admin port; without it no duty cycle"),
    ("--model", "NAME_OR_DIR", "", "model to serve, or to ask (default: minilm)"),
    ("--device", "DEVICE", "", "device of the server that is started"),
    ("--pin", "auto|off", "auto", "CPUs: the load on the last, the server on all others"),
)
_WORKLOAD: tuple[_Flag, ...] = (
    ("--text-file", "FILE", "", "texts to send, one a line"),
    ("--lengths", "DIST", "30", "words of made texts: N, uniform:A,B, normal:M,D, lognormal:M,S"),
    ("--texts", "N", 1000, "so many different ones, again and again (default: 1000)"),
    ("--call", "predict|batch:N|generate", "predict", "how they are asked for"),
)
_LOAD: tuple[_Flag, ...] = (
    ("--arrivals", "KIND", "poisson", "constant, poisson, gamma:SHAPE, … (python -m loadgen --help)"),
    ("--connections", "N", 16, "to the server (default: 16)"),
    ("--streams", "N", 256, "most calls at a time on a connection (default: 256)"),
    ("--deadline", "DURATION", "10s", "of each call; 0: none (default: 10s)"),
    ("--duration", "DURATION", "10s", "of each point, measured (default: 10s)"),
    ("--warmup", "DURATION", "1s", "before it, not measured (default: 1s)"),
    ("--load-threads", "N", 1, "of the generator, each with a CPU of its own"),
    ("--seed", "N", 1, "of arrivals and texts (default: 1)"),
)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Server, workload, load, and output."""
    server = parser.add_argument_group("server", "without --address one is started here and ended afterwards")
    work, load = parser.add_argument_group("workload"), parser.add_argument_group("load")
    for group, flags in ((server, _SERVER), (work, _WORKLOAD), (load, _LOAD)):
        for name, metavar, default, text in flags:
            group.add_argument(name, metavar=metavar, default=default, type=type(default), help=text)
    server.add_argument("--set", action="append", metavar="KEY=VALUE", default=[], help="a setting of that server")
    work.add_argument("--max-tokens", type=int, metavar="N", help="of each generation (default: the server's limit)")
    parser.add_argument("--slo", metavar="SLO", default="", help="p99=20ms,err=0.1%%: what is still good enough")
    parser.add_argument(
        "--output", metavar="DIR", default="", help="where files go (default: ./fastqps-bench-MODE-TIME)"
    )


@dataclass(frozen=True)
class Common:
    """The values of the common flags."""

    workload: Workload
    load: LoadSpec  # with one call in flight: modes put their own loads in its place
    slo: Slo | None
    settings: dict[str, Any]  # of the server, from --model, --device, --set


def read_common(options: argparse.Namespace) -> Common:
    """Raises ``ConfigError`` for what cannot be."""
    for name, highest in (("load_threads", 64), ("texts", 1 << 20)):
        if not 1 <= getattr(options, name) <= highest:
            raise ConfigError(f"--{name.replace('_', '-')} {getattr(options, name)}: 1 to {highest}")

    if not 0 <= options.seed < 1 << 31:
        raise ConfigError(f"--seed {options.seed}: 0 to {(1 << 31) - 1}")
    workload = Workload(
        call=parse_call(options.call),
        model=options.model if options.address else "",
        text_file=options.text_file,
        lengths=options.lengths,
        texts=options.texts,
        max_tokens=options.max_tokens,
        seed=options.seed,
    )
    workload.check()
    load = LoadSpec(
        in_flight=1,
        arrivals=options.arrivals,
        duration_s=_seconds(options, "duration"),
        warmup_s=_seconds(options, "warmup"),
        connections=options.connections,
        streams=options.streams,
        deadline_s=_seconds(options, "deadline"),
        seed=options.seed,
    )
    return Common(workload, load, Slo.parse(options.slo) if options.slo else None, _settings(options))


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if options.model and not options.address:
        settings["model"] = [options.model]
    if options.device:
        settings["device"] = options.device
    for text in options.set:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: write KEY=VALUE, for example dispatchers=2")
        settings[key.strip().replace("_", "-")] = value
    return settings


def _seconds(options: argparse.Namespace, name: str) -> float:
    try:
        return parse_duration(getattr(options, name)) / 1e9
    except ValueError as error:
        raise ConfigError(f"--{name}: {error}") from None


# ---- lists and rates: 1,2,4; 2.5k


VALUES_MAX = 64


def parse_values(flag: str, text: str) -> list[str]:
    """The parts of ``text`` between commas. ``ConfigError``: there are none, one is empty or there twice."""
    values = [part.strip() for part in text.split(",")]
    if not all(values) or len(set(values)) != len(values) or len(values) > VALUES_MAX:
        raise ConfigError(f"--{flag} {text!r}: write different values with commas between them, at most {VALUES_MAX}")
    return values


def parse_counts(flag: str, text: str, largest: int) -> list[int]:
    """Parses a list of whole numbers from 1 to ``largest``."""
    values = parse_values(flag, text)
    for value in values:
        if not value.isdecimal() or not 1 <= int(value) <= largest:
            raise ConfigError(f"--{flag} {text!r}: {value!r} is not a whole number from 1 to {largest}")
    return [int(value) for value in values]


def parse_rate(text: str) -> float:
    """Parses a rate: ``2000``, ``2.5k`` or ``1M``."""
    try:
        return units.rate(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
