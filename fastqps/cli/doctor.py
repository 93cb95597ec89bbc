"""``fastqps doctor``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator

from fastqps.cli.setting_flags import add_all_settings, given_settings
from fastqps.config.sources import load
from fastqps.doctor import Finding
from fastqps.doctor import report as doctor
from fastqps.errors import FAILURE, OK
from fastqps.terminal import shown

MARKS = {"ok": "ok  ", "note": "note", "lack": "LACK"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``--json``, and all settings of ``fastqps serve``."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument(
        "--config", metavar="FILE", help="TOML file with settings (default: ./fastqps.toml, if present)"
    )
    parser.description = (
        "Checks this machine. With --model, also whether fastqps serve could start with the same settings: the model, "
        "memory, and ports. With --upstream, asks those servers instead, as an edge would."
    )
    add_all_settings(parser)


def run(options: argparse.Namespace) -> int:
    """0, or 1 where something is missing that serving needs."""
    findings = _upstreams(options) if options.upstream else [*doctor.examine(), *_server(options)]
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

    return examine_upstreams(load(given_settings(options), os.environ, options.config).config)


def _server(options: argparse.Namespace) -> Iterator[Finding]:
    from fastqps.doctor.server import examine_server

    return examine_server(given_settings(options), os.environ, options.config)
