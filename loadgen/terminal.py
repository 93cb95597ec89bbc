"""A run on the terminal: its progress for programs, and a table at its end."""

from __future__ import annotations

import json
from typing import Any, TextIO

from loadgen.histogram import PERCENTILES
from loadgen.plan import Plan
from loadgen.results import status_words
from loadgen.timeline import Second
from loadgen.units import format_duration

_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
_ROWS = {
    "response": "response_time_us",
    "service": "service_time_us",
    "first message": "first_message_us",
    "between messages": "message_gap_us",
    "failed": "failed_time_us",
    "lateness": "lateness_us",
    "… its own": "own_lateness_us",
}


class Progress:
    """Prints an object per second on stdout, if ``wanted``."""

    def __init__(self, plan: Plan, wanted: bool) -> None:
        self._plan, self._wanted = plan, wanted

    def started(self, at_ns: int) -> None:
        """The run began then, by CLOCK_MONOTONIC: who looks at the server too has to know before it is measured."""
        window = {"measure_from": self._plan.measure_from_ns, "measure_until": self._plan.measure_until_ns}
        self._print({"phase": "start"} | {f"{name}_monotonic_ns": at_ns + ns for name, ns in window.items()})

    def __call__(self, seconds: list[Second]) -> None:
        """Prints the seconds that are complete."""
        for second in seconds:
            self._print(second.as_json())

    def _print(self, event: dict[str, Any]) -> None:
        if self._wanted:
            print(json.dumps(event), flush=True)


def table(document: dict[str, Any]) -> str:
    """The results as text, from their JSON."""
    load = document["load"]
    what = f"{load['in_flight']:,} in flight" if "in_flight" in load else load["arrivals"]
    lines = [f"{document['verdict']}  {document['method']} on {document['target']}, {document['loop']} loop, {what}"]
    lines += [f"  {reason}" for reason in document["reasons"]]
    if document["interrupted"]:
        lines.append("  interrupted: this is what was measured until then")
    lines.append("")
    rates = [("offered", document["offered_rate"]), ("sent", document["achieved_rate"]), ("OK", document["rate"])]
    figures = " · ".join(
        f"{name} {rate:,.4g}/s" if rate < 1000 else f"{name} {rate:,.0f}/s" for name, rate in rates if rate is not None
    )
    lines.append(f"rates      {figures} over {document['duration_s']:.4g} s")
    lines.append(f"status     {status_words(document['status'])}")
    lines += [
        "",
        " " * 17 + "".join(f"{'p99.9' if name == 'p999' else name:>10}" for name in _COLUMNS) + f"{'count':>13}",
    ]
    rows = {name: document[key] for name, key in _ROWS.items() if document.get(key, {}).get("count")}
    for name, row in rows.items():
        lines.append(
            f"{name:<17}" + "".join(f"{_cell(row, column):>10}" for column in _COLUMNS) + f"{row['count']:>13,}"
        )
    if any(row["too_few"] for row in rows.values()):
        lines.append("–: fewer than 10 samples beyond it")
    if document["loop"] == "closed":
        lines.append("closed loop: a slow server is asked less, so these latencies are not for SLOs")
    cpu = document["cpu"]
    lines += ["", f"generator  {cpu['fraction']:.0%} of the CPU time of {len(cpu['threads'])} thread(s)"]
    if document["verified"]:
        lines.append(f"verified   {document['verified']['checked']:,} answers, {document['verified']['wrong']:,} wrong")
    lines += [f"note       {note}" for note in document["notes"]]
    return "\n".join(lines)


def show(document: dict[str, Any], stream: TextIO) -> None:
    """Prints the table."""
    print(table(document), file=stream, flush=True)


def _cell(row: dict[str, Any], column: str) -> str:
    if column in PERCENTILES and column in row["too_few"]:
        return "–"
    return format_duration(row[column] * 1e3)
