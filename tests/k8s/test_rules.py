"""Rules, alarms and dashboard: what promtool says of them, and that each alarm rings when it should and only then."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from expressions import K8S, published
from prometheus_server import static
from serving import PATIENCE_S

pytestmark = pytest.mark.compute

ALERTS = yaml.safe_load((K8S / "prometheus" / "alerts.yaml").read_text())["groups"]
NAMES = [rule["alert"] for group in ALERTS for rule in group["rules"]]
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (packages.apt: prometheus)")

# A deployment of two pods that is well: series → promtool's notation for its values. Scrapes are at other times than
# evaluations, as in life: only so `increase` has to guess what lies beyond the first scrape and the last.
SCRAPE_S = 16
POD = 'namespace="{namespace}", job="fastqps", pod="p{number}"'
WELL = "fastqps"  # the namespace that `absent` asks for
HEALTHY = {
    "up": "1+0x400",
    "fastqps_ready": "1+0x400",
    "fastqps_process_ready{role='dispatcher', index='0'}": "1+0x400",
    "fastqps_restarts_total{role='dispatcher'}": "0+0x400",
    "fastqps_start_time_seconds": "100+0x400",
    "fastqps_canary_age_seconds{dispatcher='0'}": "0.5+0x400",
    "fastqps_poisoned_total": "0+0x400",
    "fastqps_saturation_ratio": "0.65+0x400",
    "fastqps_advised_replicas": "1+0x400",
    "fastqps_items_total{model='m', code='OK'}": "0+15000x400",
    "fastqps_items_total{model='m', code='INVALID_ARGUMENT'}": "0+1500x400",
    "fastqps_items_total{model='m', code='INTERNAL'}": "0+1x400",
    "fastqps_rejected_total{reason='queue_full'}": "0+1x400",
    "fastqps_expired_total{stage='queue'}": "0+1x400",
    "fastqps_queue_oldest_age_seconds{model='m'}": "0.01+0x400",
    "fastqps_request_duration_seconds_bucket{le='0.01'}": "0+15000x400",
    "fastqps_request_duration_seconds_bucket{le='0.1'}": "0+15090x400",
    "fastqps_request_duration_seconds_bucket{le='1'}": "0+15100x400",
    "fastqps_request_duration_seconds_bucket{le='+Inf'}": "0+15100x400",
    "fastqps_device_busy_seconds_total{device='d', dispatcher='0'}": "0+12x400",
    "fastqps_device_idle_seconds_total{device='d', dispatcher='0', reason='no_work'}": "0+2x400",
    "fastqps_device_idle_seconds_total{device='d', dispatcher='0', reason='launch'}": "0+1x400",
    "fastqps_model_info{model='m', version='a', generation='0'}": "1+0x400",
    "fastqps_reloads_total{model='m', outcome='failed'}": "0+0x400",
    "fastqps_reloads_total{model='m', outcome='reloaded'}": "0+1x400",
    "fastqps_reload_failed{model='m'}": "0+0x400",
    "fastqps_tls_certificate_expiry_timestamp_seconds": "2592000+0x400",
    "fastqps_tls_reloads_total{outcome='failed'}": "0+0x400",
    "fastqps_credentials_refused{files='tls'}": "0+0x400",
    "fastqps_unauthenticated_total": "0+1x400",
    "fastqps_trace_spans_total{outcome='dropped'}": "0+0x400",
}
FAILING = {"fastqps_items_total{model='m', code='INTERNAL'}": "0+1500x400"}
# Alarm → what is different (in both pods; in the first alone where the name begins with "0:"), and what rings besides.
CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "FastqpsErrorBudgetBurnsFast": (FAILING, {"FastqpsErrorBudgetBurnsSlowly"}),
    "FastqpsErrorBudgetBurnsSlowly": (
        {"fastqps_items_total{model='m', code='UNAVAILABLE'}": "0+150x400"},
        set(),
    ),
    "FastqpsSlow": ({"fastqps_request_duration_seconds_bucket{le='0.1'}": "0+14000x400",
                     "fastqps_request_duration_seconds_bucket{le='0.01'}": "0+13000x400"}, set()),
    "FastqpsAbsent": ({}, set()),
    "FastqpsOutage": ({"fastqps_ready": "0+0x400"}, set()),
    "FastqpsDown": ({"0:up": "0+0x400"}, {"FastqpsTooFewPods"}),
    "FastqpsProcessDown": ({"0:fastqps_process_ready{role='dispatcher', index='0'}": "0+0x400"}, set()),
    "FastqpsRestarts": ({"0:fastqps_restarts_total{role='dispatcher'}": "0+0x190 1 2 3 3+0x200"}, set()),
    "FastqpsPodRestarts": ({"0:fastqps_start_time_seconds": "100+0x190 200 300 300+0x200"}, set()),
    "FastqpsCanaryLate": ({"0:fastqps_canary_age_seconds{dispatcher='0'}": "0+15x400"}, set()),
    "FastqpsPoison": ({"0:fastqps_poisoned_total": "0+0x195 1+0x200"}, set()),
    "FastqpsSaturated": ({"fastqps_saturation_ratio": "0.95+0x400"}, set()),
    "FastqpsTooFewPods": ({"fastqps_advised_replicas": "1.5+0x400"}, set()),
    "FastqpsUnbalanced": ({"0:fastqps_saturation_ratio": "0.9+0x400",
                           "1:fastqps_saturation_ratio": "0.2+0x400"}, set()),
    "FastqpsRefuses": ({"0:fastqps_rejected_total{reason='queue_full'}": "0+300x400"}, set()),
    "FastqpsExpires": ({"0:fastqps_expired_total{stage='queue'}": "0+300x400"}, set()),
    "FastqpsQueueStands": ({"0:fastqps_queue_oldest_age_seconds{model='m'}": "0+15x400"}, set()),
    "FastqpsDeviceWaitsForHost": (
        {"fastqps_device_idle_seconds_total{device='d', dispatcher='0', reason='launch'}": "0+9x400"},
        set(),
    ),
    "FastqpsVersionsDiffer": ({"1:fastqps_model_info{model='m', version='a', generation='0'}": "",
                               "1:fastqps_model_info{model='m', version='b', generation='0'}": "1+0x400"}, set()),
    # Once, at the start: nobody has mended it since.
    "FastqpsReloadFailed": ({"0:fastqps_reloads_total{model='m', outcome='failed'}": "0 1+0x400",
                             "0:fastqps_reload_failed{model='m'}": "0 1+0x400"}, set()),
    "FastqpsCertificateExpires": ({"0:fastqps_tls_certificate_expiry_timestamp_seconds": "260000+0x400"}, set()),
    "FastqpsCertificateExpiresToday": ({"0:fastqps_tls_certificate_expiry_timestamp_seconds": "86400+0x400"},
                                       {"FastqpsCertificateExpires"}),
    "FastqpsCredentialsRefused": ({"0:fastqps_tls_reloads_total{outcome='failed'}": "0 1+0x400",
                                   "0:fastqps_credentials_refused{files='tls'}": "0 1+0x400"}, set()),
    "FastqpsUnauthenticated": ({"fastqps_unauthenticated_total": "0+300x400"}, set()),
    "FastqpsSpansDropped": ({"fastqps_trace_spans_total{outcome='dropped'}": "0+300x400"}, set()),
}  # fmt: skip
# What else may happen → what is different, and what rings.
NOBODY_ANSWERS = {**dict.fromkeys(HEALTHY, ""), "up": "0+0x400"}
EXPIRED = {"fastqps_tls_certificate_expiry_timestamp_seconds": "1000+0x400"}
MORE: dict[str, tuple[dict[str, str], set[str]]] = {
    "nobody-answers": (NOBODY_ANSWERS, {"FastqpsOutage", "FastqpsDown"}),
    "expired": (EXPIRED, {"FastqpsCertificateExpires", "FastqpsCertificateExpiresToday"}),
}
# Of which nobody hears, then or at any time before.
QUIET: dict[str, dict[str, str]] = {
    # Nine minutes of an hour: graphs are captured, one device after the other. Again after one death.
    "quiet-slow-start": {
        "0:fastqps_ready": "0+0x34 1+0x400",
        "0:fastqps_process_ready{role='dispatcher', index='0'}": "0+0x34 1+0x60 0+0x34 1+0x400",
        "0:fastqps_restarts_total{role='dispatcher'}": "0+0x94 1+0x400",
    },
    "quiet-two-deaths": {"0:fastqps_restarts_total{role='dispatcher'}": "0+0x190 1 2 2+0x200"},
}


def promtool(*words: str, cwd: Path) -> str:
    done = subprocess.run(["promtool", *words], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_promtool_likes_what_is_shipped(tmp_path: Path) -> None:
    told = promtool("check", "rules", "recording.yaml", "alerts.yaml", cwd=K8S / "prometheus")
    assert f"SUCCESS: {len(NAMES)} rules found" in told
    for name in ("recording.yaml", "alerts.yaml"):
        shutil.copy(K8S / "prometheus" / name, tmp_path)
    # Debian's build knows no Kubernetes: the discovery is put out, all else is as shipped.
    config = static(K8S / "prometheus" / "prometheus.yaml", "n", {"pod": "127.0.0.1:9464"})
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    assert "2 rule files found" in promtool("check", "config", "prometheus.yaml", cwd=tmp_path)


def series(namespace: str, changes: dict[str, str]) -> list[dict[str, str]]:
    """Two healthy pods of that namespace, with changes; without values there is no such series."""
    found = []
    for number in (0, 1):
        own = dict(HEALTHY)
        for name, values in changes.items():
            for_pod, _, bare = name.rpartition(":") if name[1:2] == ":" else ("", "", name)
            if for_pod in ("", str(number)):
                own[bare] = values
        for name, values in own.items():
            metric, _, labels = name.partition("{")
            pod = POD.format(namespace=namespace, number=number)
            text = f"{metric}{{{pod}{', ' if labels else ''}{labels or '}'}"
            if values:
                found.append({"series": text.replace("'", '"'), "values": values})
    return found


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
    rules = [str(K8S / "prometheus" / name) for name in ("recording.yaml", "alerts.yaml")]
    plan = {"rule_files": rules, "evaluation_interval": "1m", "tests": [case(*world) for world in worlds]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(plan))
    assert "SUCCESS" in promtool("test", "rules", "cases.yaml", cwd=tmp_path)


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
    plan = {"tests": [{"interval": "5s", "input_series": given, "promql_expr_test": tests}]}
    (tmp_path / "starts.yaml").write_text(yaml.safe_dump(plan))
    assert "SUCCESS" in promtool("test", "rules", "starts.yaml", cwd=tmp_path)


def test_what_is_written_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(K8S))
    for path, text in runpy.run_path(str(K8S / "write.py"))["written"]().items():
        assert path.read_text() == text, f"{path.name} is not what it is written from: make manifests"


def test_every_alarm_is_explained() -> None:
    """In the README, with its meaning, where to look first, and the fix; and nothing else is explained there."""
    text = (K8S / "README.md").read_text()
    told = dict(re.findall(r"^### (Fastqps\w+)\n(.*?)(?=^##)", text + "\n##", re.M | re.S))
    assert list(told) == NAMES
    for name, what in told.items():
        for word in ("**Means**", "**Look first**", "**Fix**"):
            assert what.count(word) == 1, f"{name}: {word}"
    for group in ALERTS:
        for rule in group["rules"]:
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
