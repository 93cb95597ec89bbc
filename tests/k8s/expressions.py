"""Every PromQL expression that the project publishes, found in the files themselves: no list to keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from paths import ROOT

K8S = ROOT / "k8s"
PAGES = (ROOT / "README.md", K8S / "README.md", *sorted((ROOT / "docs").glob("*.md")))
RULES = yaml.safe_load((K8S / "components" / "monitoring" / "prometheusrule.yaml").read_text())["spec"]
_COMPARISON = re.compile(r"(==|!=|<=|>=|<(?!<)|>)(?!\s*bool\b)")
_IN_CODE = re.compile(r"(?<!`)`([^`\n]*\bfastqps_[a-z_]+[^`\n]*)`(?!`)")
_FENCED = re.compile(r"```promql\n(.*?)```", re.S)


@dataclass(frozen=True)
class Published:
    """``where``: file and place. ``may_be_empty``: only of `absent(…)`, whose inside must not be."""

    where: str
    query: str


def published(namespace: str, job: str, pods: list[str]) -> list[Published]:
    """All of them, variables and templates filled in as Grafana and prometheus-adapter would."""
    filled = {"$namespace": namespace, "$job": job, "$pod": "|".join(pods), "$model": ".*"}
    filled |= {"$__rate_interval": "20s", "$__rate_interval_ms": "20000"}
    return [*_adapter(namespace, pods), *_keda(), *_rules(), *_dashboard(filled), *_pages()]


def comparisons_answer(query: str) -> str:
    """The same, but a comparison answers 0 or 1 instead of nothing: an alarm that does not fire has an answer then."""
    return "".join(_COMPARISON.sub(r"\1 bool", part) if code else part for part, code in _split(query))


def _split(query: str) -> Iterator[tuple[str, bool]]:
    """Parts of a query, and whether they are code: text in quotes and in braces is not."""
    last = 0
    for match in re.finditer(r'\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}|"(?:[^"\\]|\\.)*"', query):
        yield query[last : match.start()], True
        yield match[0], False
        last = match.end()
    yield query[last:], True


def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def _adapter(namespace: str, pods: list[str]) -> Iterator[Published]:
    """What prometheus-adapter asks when the HPA wants its metric: of these pods, by pod."""
    scaler = _load(K8S / "components" / "hpa" / "horizontalpodautoscaler.yaml")
    wanted = {metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]}
    rules = {rule["name"]["as"]: rule for rule in _load(K8S / "prometheus" / "adapter.yaml")["rules"]}
    assert wanted == set(rules), "the adapter's rules make exactly the metrics that the HPA asks for"
    matchers = f'namespace="{namespace}",pod=~"{"|".join(pods)}"'
    for name, rule in rules.items():
        yield Published(f"adapter.yaml: {name}, discovery", rule["seriesQuery"])
        series = rule["seriesQuery"].partition("{")[0]
        query = rule["metricsQuery"].replace("<<.Series>>", series).replace("<<.LabelMatchers>>", matchers)
        yield Published(f"adapter.yaml: {name}", query.replace("<<.GroupBy>>", "pod"))


def _keda() -> Iterator[Published]:
    for i, trigger in enumerate(_load(K8S / "components" / "keda" / "scaledobject.yaml")["spec"]["triggers"]):
        yield Published(f"scaledobject.yaml: trigger {i}", trigger["metadata"]["query"])


def _rules() -> Iterator[Published]:
    for group in RULES["groups"]:
        for rule in group["rules"]:
            query = re.sub(r"^absent\((.*)\)$", r"\1", rule["expr"])  # absent answers when its inside does not
            yield Published(f"prometheusrule.yaml: {rule.get('record') or rule['alert']}", query)


def _dashboard(filled: dict[str, str]) -> Iterator[Published]:
    board = json.loads((K8S / "components" / "monitoring" / "dashboard.json").read_text())
    found = [("annotation", note["expr"]) for note in board["annotations"]["list"]]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
            assert asked, variable["query"]
            found.append((f"variable {variable['name']}", f"count by ({asked[2]}) ({asked[1]})"))
    for panel in _panels(board["panels"]):
        found += [(f"panel {panel['title']!r}", target["expr"]) for target in panel["targets"]]
    for where, query in found:
        for name, value in sorted(filled.items(), key=lambda item: -len(item[0])):
            query = query.replace(name, value)
        assert "$" not in query, f"{where}: a variable that is not the dashboard's: {query}"
        yield Published(f"dashboard.json: {where}", query)


def _panels(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        if panel["type"] == "row":
            yield from _panels(panel["panels"])
        else:
            yield panel


def _pages() -> Iterator[Published]:
    """Blocks of PromQL, an expression to a line, and names of metrics or expressions of them within a sentence."""
    for page in PAGES:
        text = page.read_text()
        name = page.relative_to(ROOT)
        for block in _FENCED.findall(text):
            yield from (Published(f"{name}, a block", line) for line in block.splitlines() if line.strip())
        without_blocks = re.sub(r"```.*?```", "", text, flags=re.S)
        yield from (Published(f"{name}, a sentence", found) for found in _IN_CODE.findall(without_blocks))
