"""The options of a run: the command line, checked as a whole."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from loadgen import arrivals, flags, tls
from loadgen.errors import UsageError


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The checked options of a run; raises ``UsageError``."""
    options = flags.parser().parse(arguments)
    _check_load(options)
    _check_payloads(options)
    _check_call(options)
    tls.check(options)
    return options


def _check_load(o: argparse.Namespace) -> None:
    if o.trace and (o.rate is not None or o.arrivals or o.closed):
        raise UsageError("--trace says when calls are due; leave out --rate, --arrivals and --closed")
    if o.closed and (o.rate is not None or o.arrivals):
        raise UsageError("--closed sends as fast as answers come; leave out --rate and --arrivals")
    if o.speedup is not None and not o.trace:
        raise UsageError("--speedup is for a --trace")
    if not o.trace and not o.closed:
        o.arrivals = o.arrivals or arrivals.parse("poisson")
        if o.rate is None and not o.arrivals.has_rate:
            raise UsageError("how much load? Give --rate R, --trace FILE or --closed N")
    if o.duration is None and not o.trace:
        o.duration = 10_000_000_000
    if o.warmup is None:
        o.warmup = 0 if o.trace else 1_000_000_000
    for flag, value in (("--duration", o.duration), ("--connect-timeout", o.connect_timeout)):
        if value == 0:
            raise UsageError(f"{flag} must be above 0")
    if o.closed:
        o.connections = min(o.connections, o.closed)  # each has a call
    o.streams = o.streams or (1 if o.call == "bidi" else 1000)
    if o.threads > o.connections:
        raise UsageError(f"--threads {o.threads} needs at least as many --connections; there are {o.connections}")
    if o.cpus and len(o.cpus) != o.threads:
        raise UsageError(f"--cpus names {len(o.cpus)} CPUs for {o.threads} threads; give one for each")


def _check_payloads(o: argparse.Namespace) -> None:
    sources = [bool(o.payload), o.text_field is not None, o.empty_payload]
    if sum(sources) != 1:
        raise UsageError("what to send? Give one of --payload FILE…, --text-field N and --empty-payload")
    if o.unique and o.text_field is None:
        raise UsageError("--unique makes a text for each call; it needs --text-field")
    if o.unique and o.closed:
        raise UsageError("--unique needs an open loop: nobody knows how many calls a closed one makes; give --texts N")
    if o.calls and o.closed:
        raise UsageError("--calls needs an open loop: nobody knows how many calls a closed one makes; give --rate R")
    if o.expect != "same" and not o.verify:
        raise UsageError("--expect says what --verify compares with; give --verify 0.01 too")


def _check_call(o: argparse.Namespace) -> None:
    if o.call == "bidi" and not (o.request_id_field and o.response_id_field):
        raise UsageError("--call bidi needs --request-id-field and --response-id-field, to tell which answer is whose")
    if o.response_id_field and not o.request_id_field:
        raise UsageError("--response-id-field needs --request-id-field")
    if o.request_id_field and o.verify:
        raise UsageError("--verify compares answers byte by byte, and ids change them: leave out one of the two")
