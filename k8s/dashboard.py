"""Writes the dashboard from its panels: ``make dashboard``, after a change in them. A test checks that it was run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from panels import ROWS, Panel, Row

WRITTEN = Path(__file__).parent / "components" / "monitoring" / "dashboard.json"
_PODS = 'namespace="$namespace", job="$job", pod=~"$pod"'
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_HEIGHT = {"stat": 4}


def dashboard() -> str:
    """The text of the file."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        inside, height = _laid_out(row, y + 1, 100 * (1 + ROWS.index(row)))
        head = {"id": 10 * (1 + ROWS.index(row)), "type": "row", "title": row.title, "collapsed": row.folded}
        head["gridPos"] = {"x": 0, "y": y, "w": 24, "h": 1}
        head["panels"] = inside if row.folded else []
        panels += [head, *([] if row.folded else inside)]
        y += 1 + (0 if row.folded else height)
    board = {
        "uid": "fastqps",
        "title": "fastqps",
        "description": "Written by `make dashboard` from k8s/panels.py. What each alarm means: k8s/README.md.",
        "tags": ["fastqps"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "annotations": {"list": _annotations()},
        "panels": panels,
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def _variables() -> list[dict[str, Any]]:
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    found = [source]
    for name, filters in (
        ("namespace", ""),
        ("job", '{namespace="$namespace"}'),
        ("pod", '{namespace="$namespace", job="$job"}'),
        ("model", f"{{{_PODS}}}"),
    ):
        many = name in ("pod", "model")
        metric = "fastqps_requests_waiting" if name == "model" else "fastqps_build_info"
        query = f"label_values({metric}{filters}, {name})"
        variable: dict[str, Any] = {"name": name, "type": "query", "datasource": _SOURCE, "query": query}
        variable |= {"definition": query, "refresh": 2, "sort": 1, "multi": many, "includeAll": many}
        if many:
            variable |= {"allValue": ".*", "current": {"text": "All", "value": "$__all"}}
        found.append(variable)
    return found


def _annotations() -> list[dict[str, Any]]:
    # Not `changes`: a new pod is a new series. Two minutes, of which Prometheus sees more than the minute between the
    # points that Grafana asks for.
    started = f"time() - fastqps_start_time_seconds{{{_PODS}}} < 120"
    note = {"name": "Servers started", "datasource": _SOURCE, "enable": True, "iconColor": "blue"}
    return [{**note, "expr": started, "titleFormat": "started", "textFormat": "{{pod}}"}]


def _laid_out(row: Row, top: int, first_id: int) -> tuple[list[dict[str, Any]], int]:
    """The row's panels from line ``top`` on, and how many lines they take."""
    found: list[dict[str, Any]] = []
    x, y, line = 0, top, 0
    for number, panel in enumerate(row.panels):
        height = _HEIGHT.get(panel.kind, 8)
        if x + panel.width > 24:
            x, y, line = 0, y + line, 0
        place = {"x": x, "y": y, "w": panel.width, "h": height}
        found.append({"id": first_id + number, **_panel(panel), "gridPos": place})
        x, line = x + panel.width, max(line, height)
    return found, y + line - top


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": _expanded(query), "legendFormat": legend}
        for i, (query, legend) in enumerate(panel.queries)
    ]
    found = {"type": panel.kind, "title": panel.title, "description": panel.about, "datasource": _SOURCE}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": _thresholds(panel)}
    if panel.most is not None:
        defaults["max"] = panel.most
    options: dict[str, Any] = {}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stack else "none"}
        defaults["custom"] = {"fillOpacity": 30 if panel.stack else 5, "stacking": stacking, "showPoints": "never"}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif panel.kind == "stat":
        defaults["color"] = {"mode": "thresholds"}
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area", "colorMode": "value"}
    elif panel.kind == "heatmap":
        targets[0]["format"] = "heatmap"
        options = {"calculate": False, "yAxis": {"unit": panel.unit}, "color": {"scheme": "Blues"}, "cellGap": 0}
    elif panel.kind == "table":
        targets[0] |= {"format": "table", "instant": True}
    return {**found, "targets": targets, "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options}


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}]
    steps += [{"color": c, "value": v} for c, v in (("yellow", panel.yellow), ("red", panel.red)) if v is not None]
    return {"mode": "absolute", "steps": steps}


def _expanded(query: str) -> str:
    return query.replace("$pods", _PODS).replace("$window", "$__rate_interval")


if __name__ == "__main__":
    WRITTEN.write_text(dashboard())
