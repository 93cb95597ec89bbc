"""Every flag of ``python -m loadgen``, with how its text is read."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from loadgen import arrivals, texts, units
from loadgen.errors import UsageError
from loadgen.wire import FIELD_MAX

CALLS = ("unary", "server-stream")
_METHOD = re.compile(r"/[A-Za-z_][\w.]*/[A-Za-z_]\w*")
_HEADER = re.compile(r"[0-9a-z_.-]+")
_RESERVED = ("content-type", "te", "user-agent", "grpc-timeout", "grpc-encoding", "host", "connection")


class Parser(argparse.ArgumentParser):
    """Raises ``UsageError`` where argparse would exit; a misspelt flag gets a suggestion."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')} (see: {self.prog} --help)")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parses like ``parse_args``."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            flag = unknown[0].partition("=")[0]
            close = difflib.get_close_matches(flag, [o for a in self._actions for o in a.option_strings], 1)
            self.error(f"unknown argument {flag}" + (f"; did you mean {close[0]}?" if close else ""))
        return options


def _target(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r} is no target; write HOST:PORT, for example 127.0.0.1:50051")
    return host, int(port)


def _method(text: str) -> str:
    if not _METHOD.fullmatch(text):
        raise UsageError(f"{text!r} is no method; write /package.Service/Method")
    return text


def _header(text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    key, value = key.strip().lower(), value.strip()
    if not colon or not _HEADER.fullmatch(key) or not value.isascii() or not value.isprintable():
        raise UsageError(f"{text!r} is no header; write KEY:VALUE in ASCII")
    if key in _RESERVED or (key.startswith("grpc-") and key != "grpc-accept-encoding"):
        raise UsageError(
            f"the header {key!r} is the generator's own" + (": use --deadline" if "timeout" in key else "")
        )
    return key, value


def integer(lowest: int, highest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"{text!r} is no whole number") from None
        if not lowest <= value <= highest:
            raise UsageError(f"{value:,} is not between {lowest:,} and {highest:,}")
        return value

    return read


def _speedup(text: str) -> float:
    return units.number(text, "the speed-up", 0, 1e6, above=True)


def checked(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def type(text: str) -> Any:
        try:
            return read(text)
        except UsageError as error:  # argparse would replace the words of a ValueError by its own
            raise argparse.ArgumentTypeError(str(error)) from None

    return type


def parser() -> Parser:
    """All flags; what they mean together is checked by ``options``."""
    flags = Parser(
        prog="python -m loadgen",
        usage="%(prog)s --target HOST:PORT --method /PKG.SERVICE/METHOD --payload FILE --rate R [FLAGS]",
        description="Open-loop load for any gRPC method: calls are due at times fixed before the run, and latency "
        "counts from these times. Exit codes: 0 VALID, 1 failed, 2 usage, 6 UNSTABLE, 7 INVALID, 130 Ctrl-C.",
        allow_abbrev=False,
    )
    duration = checked(units.duration_ns)

    def count(highest: int, lowest: int = 1) -> Callable[[str], Any]:
        return checked(integer(lowest, highest))

    add = flags.add_argument_group("what is called").add_argument
    add(
        "--target",
        required=True,
        type=checked(_target),
        metavar="HOST:PORT",
        help="cleartext without --tls-…",
    )
    add("--method", required=True, type=checked(_method), metavar="/PKG.SERVICE/METHOD")
    add("--call", choices=CALLS, default="unary", help="kind of call")
    add("--header", action="append", default=[], type=checked(_header), metavar="K:V", help="metadata; repeat it")
    add("--tls-ca", metavar="FILE", help="use TLS; PEM file with who may have signed the server's certificate")
    add("--tls-insecure", action="store_true", help="use TLS, whatever certificate the server shows")
    add("--tls-cert", metavar="FILE", help="PEM file with the certificate to show the server")
    add("--tls-key", metavar="FILE", help="PEM file with the key of --tls-cert")
    add("--token-file", metavar="FILE", help="file with the token to send; lines with # are left out")
    add("--deadline", type=duration, default=0, help="of each call, from the time it is due; default: none")

    add = flags.add_argument_group("what is sent").add_argument
    add("--payload", nargs="+", action="extend", default=[], metavar="FILE", help="a serialized message each")
    add("--delimited", action="store_true", help="payload files hold many messages, each behind its length (varint)")
    add("--empty-payload", action="store_true", help="send a message without fields")
    add("--text-field", type=count(FIELD_MAX), metavar="N", help="make messages: random words in string field N")
    add("--text-lengths", type=checked(texts.parse), default=texts.parse("lognormal:20,0.5"), metavar="DIST",
        help="their words: fixed:N, uniform:A,B, normal:MEAN,SD, lognormal:MEDIAN,SIGMA")  # fmt: skip
    add("--texts", type=count(10**7), default=1000, metavar="N", help="how many different ones; default 1000")

    add = flags.add_argument_group("how much").add_argument
    add("--rate", type=checked(units.rate), metavar="R", help="calls per second, the mean; 2.5k and 1M work too")
    add("--arrivals", type=checked(arrivals.parse), metavar="KIND", help=f"{arrivals.forms(' ')}; default poisson")
    add("--trace", metavar="FILE", help="recorded arrivals: CSV of t_us[,payload]")
    add("--speedup", type=checked(_speedup), metavar="X", help="play the trace X times as fast")
    add("-c", "--closed", type=count(1_000_000), metavar="N", help="closed loop of N calls, for peak throughput only")
    add("--duration", type=duration, help="measured time; default 10s, of a trace: all of it")
    add("--warmup", type=duration, help="before it, not counted; default 1s, of a trace: 0")
    add("--seed", type=count(2**63, 0), default=1, metavar="N", help="of arrivals, texts and payload order; default 1")

    add = flags.add_argument_group("connections").add_argument
    add("--connections", type=count(10_000), default=8, metavar="C", help="default 8")
    add("--streams", type=count(100_000), default=1000, metavar="S", help="most calls open on each; default 1000")
    add("--threads", type=count(256), default=1, metavar="T", help="of the generator; default 1")
    add("--connect-timeout", type=duration, default=5_000_000_000)
    add("--grace", type=duration, default=5_000_000_000, help="for calls still open at the end; default 5s")

    add = flags.add_argument_group("answers").add_argument
    add("--expect", metavar="FILE", help="delimited messages, the right answer to each payload")
    add("--samples", metavar="FILE", help="write some answers there as JSON lines (payload, answer in base64)")

    add = flags.add_argument_group("results").add_argument
    add("--json", metavar="FILE", help="all results; - for stdout")
    add("--calls", metavar="FILE", help="each measured call as CSV: t_us,payload,response_us,outcome; open loop only")
    add("--progress", choices=("json", "off"), default="off", help="json: an object per second on stdout")
    return flags
