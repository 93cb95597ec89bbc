"""``fastqps doctor``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os

from fastqps.cli.setting_flags import CARD_KEYS, add_settings, given_settings
from fastqps.config.sources import load
from fastqps.doctor import report as doctor
from fastqps.errors import FAILURE, OK
from fastqps.host.finding import Finding
from fastqps.terminal import shown

MARKS = {"ok": "ok  ", "note": "note", "lack": "LACK"}
_TLS = ("upstream-tls-ca", "upstream-tls-cert", "upstream-tls-key", "upstream-token-file")
_KEYS = ("upstream", *_TLS, "model", *CARD_KEYS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``--json``, and the settings of an edge."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    group = parser.add_argument_group("the servers of an edge", "asked instead of this machine, as the edge would")
    add_settings(group, _KEYS)


def run(options: argparse.Namespace) -> int:
    """0, or 1 where something is missing that serving needs."""
    findings = _upstreams(options) if options.upstream else doctor.examine()
    if options.json:
        print(json.dumps({"schema_version": 1, "findings": [dataclasses.asdict(f) for f in findings]}, indent=2))
    else:
        for finding in findings:
            print(shown(f"{MARKS[finding.level]}  {finding.name:<18} {finding.value}"))
            if finding.advice:
                print(shown(f"      {'':<18} -> {finding.advice}"))
    return FAILURE if any(f.level == "lack" for f in findings) else OK


def _upstreams(options: argparse.Namespace) -> list[Finding]:
    from fastqps.doctor.upstreams import examine_upstreams

    return examine_upstreams(load(given_settings(options), os.environ, None).config)
