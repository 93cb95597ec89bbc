"""Findings about the servers that an edge would send to: asked as an edge asks them."""

from __future__ import annotations

from collections.abc import Iterator

from fastqps._front import ProbeAnswer, TlsError, probe
from fastqps.config import Config
from fastqps.config.edge import check_edge, parse_upstream, upstream_files
from fastqps.dispatcher.upstreams import addresses_of
from fastqps.doctor import Finding, Level
from fastqps.errors import ConfigError
from fastqps.models import ModelCard
from fastqps.process.credentials import UpstreamFiles
from fastqps.supervisor.plan import read_cards

TIMEOUT_S = 3.0
_ADVICE = {
    "connecting": "is it started, is the port right, and does nothing between the machines drop packets?",
    "suspended": "look at its log",
    "draining": "it is about to end",
    "mismatch": "serve the same version on both sides: see docs/edge.md",
    "refused": "compare certificates and tokens of both sides: see docs/edge.md",
}


def examine_upstreams(config: Config) -> list[Finding]:
    """A finding for each address and model. Raises ``ConfigError`` and ``ModelError`` for what an edge could not start
    with."""
    check_edge(config, "remote")
    if not config.model:
        raise ConfigError("--upstream needs --model: servers are asked for a model in one version")
    files = UpstreamFiles(*upstream_files(config))
    token, pem = files.token(), files.pem()
    cards = read_cards(config)
    findings: list[Finding] = []
    for host, port in map(parse_upstream, config.upstream):
        try:
            addresses = addresses_of(host, port)
        except OSError as error:
            findings.append(Finding(f"{host}:{port}", f"it cannot be looked up: {error.strerror or error}", "lack"))
            continue
        for address in addresses:
            for card in cards:
                try:
                    answer = probe(
                        address, model=card.name, version=card.version, max_input_tokens=card.max_input_tokens,
                        max_output_tokens=card.max_output_tokens, token=token, tls=pem, timeout_s=TIMEOUT_S,
                    )  # fmt: skip
                except TlsError as error:
                    raise ConfigError(f"{files.tls_flags}: {error}") from None
                findings.extend(_findings(address[0], card, answer))
    return findings


def _findings(name: str, card: ModelCard, answer: ProbeAnswer) -> Iterator[Finding]:
    if answer.state != "serving":
        level: Level = "note" if answer.state == "draining" else "lack"
        yield Finding(name, f"{answer.state}: {answer.reason}", level, _ADVICE[answer.state])
        return
    limits = f"inputs of {answer.max_input_tokens} tokens"
    if answer.max_output_tokens:
        limits += f", outputs of {answer.max_output_tokens}"
    load = f"saturation {answer.utilization_thousandth / 1000:.2f}, {answer.waiting} waiting, {answer.running} running"
    yield Finding(
        name,
        f"serves {card.name}@{card.version} by fastqps {answer.server}: {limits}, {answer.max_inflight} at a time; "
        f"round trip {answer.rtt_ns / 1e6:.2f} ms; {load}",
    )
