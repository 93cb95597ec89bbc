"""``fastqps doctor``."""

from __future__ import annotations

import argparse
import dataclasses
import json

from fastqps.doctor import report as doctor
from fastqps.errors import FAILURE, OK

MARKS = {"ok": "ok  ", "note": "note", "lack": "LACK"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


def run(options: argparse.Namespace) -> int:
    """0, or 1 where something is missing that serving needs."""
    findings = doctor.examine()
    if options.json:
        print(json.dumps({"schema_version": 1, "findings": [dataclasses.asdict(f) for f in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"{MARKS[finding.level]}  {finding.name:<18} {finding.value}")
            if finding.advice:
                print(f"      {'':<18} -> {finding.advice}")
    return FAILURE if any(f.level == "lack" for f in findings) else OK
