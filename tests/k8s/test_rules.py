"""Rules, alarms and dashboard: what promtool says of them, and that each alarm rings when it should and only then."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from alarm_cases import CASES, MORE, QUIET, SCRAPE_S, WELL, series
from expressions import K8S, RULES, published
from promtool import check_rules, configure, needs_promtool, promtool

from fastqps.errors import FAULTS, StatusCode

pytestmark = pytest.mark.compute

ALERTS = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]
NAMES = [rule["alert"] for rule in ALERTS]
NEVER_ANSWERED = ("ALREADY_EXISTS", "ABORTED")


@needs_promtool
def test_promtool_likes_what_is_shipped(tmp_path: Path) -> None:
    # Debian's build knows no Kubernetes: the discovery is put out, all else is as shipped.
    config = configure(tmp_path, "n", {"pod": "127.0.0.1:9464"})
    told = promtool("check", "config", config.name, cwd=tmp_path)
    rules = sum(len(group["rules"]) for group in RULES["groups"])
    assert "1 rule files found" in told and f"SUCCESS: {rules} rules found" in told


def case(ringing: set[tuple[str, str]], given: list[dict[str, str]]) -> dict[str, Any]:
    """After 55 minutes exactly these alarms ring: (namespace, alarm). In quiet namespaces none has rung before."""
    query = 'count by (namespace, alertname) (ALERTS{alertstate="firing"}) > bool 0'
    samples = [{"labels": f'{{namespace="{n}", alertname="{name}"}}', "value": 1} for n, name in sorted(ringing)]
    ever = 'count by (namespace, alertname) (count_over_time(ALERTS{alertstate="firing", namespace=~"quiet-.*"}[55m]))'
    tests: list[dict[str, Any]] = [
        {"expr": query, "eval_time": "55m", "exp_samples": samples},
        {"expr": ever, "eval_time": "55m", "exp_samples": []},
    ]
    return {"interval": f"{SCRAPE_S}s", "input_series": given, "promql_expr_test": tests}


@needs_promtool
def test_each_alarm_rings_when_it_should_and_only_then(tmp_path: Path) -> None:
    """Each case is a namespace of its own, beside one that is well; only an absent deployment needs its own world: in
    another namespace there is one."""
    assert list(CASES) == NAMES, "each alarm has its case, in the file's order"
    worlds: list[tuple[set[tuple[str, str]], list[dict[str, str]]]] = [(set(), series(WELL, {}))]
    for name, (changes, besides) in CASES.items():
        if name == "FastqpsAbsent":
            worlds.append(({(WELL, name)}, series("other", changes)))
        else:
            worlds[0][0].update((name.lower(), alarm) for alarm in {name, *besides})
            worlds[0][1].extend(series(name.lower(), changes))
    for name, (changes, ringing) in (MORE | {name: (changes, set()) for name, changes in QUIET.items()}).items():
        worlds[0][0].update((name, alarm) for alarm in ringing)
        worlds[0][1].extend(series(name, changes))
    check_rules(tmp_path, *(case(*world) for world in worlds))


@needs_promtool
def test_the_dashboard_shows_each_start(tmp_path: Path) -> None:
    """Of a container that ended, and of a pod that is new, whose series has never changed."""
    served = {
        "old": "100+0x400",
        "restarted": "100+0x180 900+0x200",  # after 15 minutes
        "new": "_x242 1200+0x200",  # after 20 minutes, seen 10 s later
    }
    given = [
        {"series": f'fastqps_start_time_seconds{{namespace="n", job="j", pod="{pod}"}}', "values": values}
        for pod, values in served.items()
    ]
    found = {part.where: part.query for part in published("n", "j", [*served])}
    note, panel = found["dashboard.json: annotation"], found["dashboard.json: panel 'Starts of servers'"]
    seen: list[tuple[str, str, str]] = [
        # Grafana asks for annotations once a minute: whichever second of it that is, one point falls into the start.
        *((note, at, "restarted") for at in ("15m6s", "16m5s")),
        *((note, at, "new") for at in ("20m12s", "21m11s")),
        *((note, at, "") for at in ("14m55s", "19m", "25m")),
        (panel, "15m10s", "restarted"),
        (panel, "20m15s", "new"),
        *((panel, at, "") for at in ("14m55s", "18m", "25m")),
    ]
    tests = []
    for query, at, pod in seen:
        samples = [{"labels": f'{{pod="{pod}"}}', "value": 1}] if pod else []
        tests.append({"expr": f"count by (pod) (({query}) > 0)", "eval_time": at, "exp_samples": samples})
    check_rules(tmp_path, {"interval": "5s", "input_series": given, "promql_expr_test": tests})


def test_every_recorded_series_is_one_that_an_alarm_asks_for() -> None:
    recorded = {rule["record"] for group in RULES["groups"] for rule in group["rules"] if "record" in rule}
    assert recorded == {name for rule in ALERTS for name in re.findall(r"\bjob\w*:\w+:\w+", rule["expr"])}


def test_failures_are_those_that_servers_show_from_the_start() -> None:
    """What rules and dashboard do not count as failed is OK and what clients are to blame for."""
    for path in (K8S / "components" / "monitoring" / name for name in ("prometheusrule.yaml", "dashboard.json")):
        found = re.findall(r'code=~\\?"(OK[|A-Z_]+)', path.read_text())
        assert found, path.name
        for codes in found:
            assert {*StatusCode.__members__} - {*codes.split("|")} == {*FAULTS, *NEVER_ANSWERED}, path.name


def test_the_dashboard_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(K8S))
    writer = runpy.run_path(str(K8S / "dashboard.py"))
    assert writer["WRITTEN"].read_text() == writer["dashboard"](), "not what it is written from: make dashboard"


def test_every_alarm_is_explained() -> None:
    """In the README, with its meaning, where to look first, and the fix; and nothing else is explained there."""
    text = (K8S / "README.md").read_text()
    told = dict(re.findall(r"^### (Fastqps\w+)\n(.*?)(?=^##)", text + "\n##", re.M | re.S))
    assert list(told) == NAMES
    for name, what in told.items():
        for word in ("**Means**", "**Look first**", "**Fix**"):
            assert what.count(word) == 1, f"{name}: {word}"
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["runbook"] == f"k8s/README.md#{rule['alert'].lower()}"


def test_the_dashboard_is_whole() -> None:
    """Panels do not overlap, ids are their own, and each has a unit, an explanation and a query."""
    board = json.loads((K8S / "components" / "monitoring" / "dashboard.json").read_text())
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    folded = [panel for row in rows for panel in row["panels"]]
    ids = [panel["id"] for panel in (*rows, *panels, *folded)]
    assert len(ids) == len(set(ids)) and len(rows) >= 8
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in (*panels, *folded):
        assert panel["description"] and panel["targets"] and panel["fieldConfig"]["defaults"]["unit"]
