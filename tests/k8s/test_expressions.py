"""Every expression that the project publishes has an answer over the pages of real servers, with Prometheus' labels.

Autoscalers, rules, alarms, dashboard and documents are read from their files. What is misspelt, not on a
server's page or does not join answers nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from capacity_files import capacity_file
from certificates import Authority
from expressions import comparisons_answer, published
from prometheus_client.parser import text_string_to_metric_families
from promtool import check_rules, configure, needs_promtool, promtool
from serving import Server

import fastqps
from fastqps.errors import CallError

NAMESPACE = JOB = "fastqps"
TOKEN = "secret-of-the-test"
# Of NVIDIA's exporter: there are none without a GPU and the exporter beside it.
NEEDS_A_GPU = "DCGM_FI_"
AT = "10m"  # rates have their points by then, and rules over rules their answers


def configured(folder: Path, authority: Authority) -> list[str]:
    """An encoder with a capacity file, a certificate, a token and traces that nobody takes."""
    (folder / "tokens").write_text(f"{TOKEN}\n")
    files = [f"--capacity={capacity_file(folder / 'capacity.json')}", f"--auth-token-file={folder / 'tokens'}"]
    # Nobody listens there: spans are made, and dropped.
    return [*files, *authority.pair().flags, "--otlp-endpoint=http://127.0.0.1:1", "--trace-ratio=1"]


def load(client: fastqps.Client) -> None:
    """A request that is answered, and one that is not."""
    with client:
        client.predict("She have a apple.")
        with pytest.raises(CallError):
            client.predict("word " * 4000)


def scraped(folder: Path, pods: dict[str, str]) -> list[dict[str, str]]:
    """The labels of each target that the shipped configuration leaves."""
    config = configure(folder, NAMESPACE, pods)
    told = json.loads(promtool("check", "service-discovery", config.name, JOB, "--timeout=1s", cwd=folder))
    return sorted((it["labels"] for it in told if it["labels"]), key=lambda labels: labels["pod"])


def series(page: str, labels: dict[str, str]) -> Iterator[dict[str, str]]:
    """What Prometheus has of a page that stays as it is, but that counters grow."""
    yield {"series": named("up", labels), "values": "1+0x400"}
    for family in text_string_to_metric_families(page):
        step = 0 if family.type == "gauge" else 1
        for sample in family.samples:
            yield {"series": named(sample.name, sample.labels | labels), "values": f"{sample.value:f}+{step}x400"}


def named(name: str, labels: dict[str, str]) -> str:
    return f"{name}{{{', '.join(f'{key}={json.dumps(value)}' for key, value in labels.items())}}}"


@needs_promtool
def test_every_published_expression_answers(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Over three pods: an encoder with all that can be configured, a generator, and an edge in front of it."""
    authority = Authority(tmp_path)
    servers = [serve(*configured(tmp_path, authority)), serve("--model=grammar", "--max-running=8")]
    servers.append(serve("--device=remote", f"--upstream={servers[1].address}", "--model=grammar"))
    load(fastqps.Client(servers[0].address, tls_ca=str(authority.certificate), token=TOKEN))
    for server in servers[1:]:
        load(fastqps.Client(server.address, model="grammar"))
    pods = {f"fastqps-{i}": server.admin for i, server in enumerate(servers)}
    targets = scraped(tmp_path, pods)
    assert [(target["pod"], target["__address__"]) for target in targets] == [*pods.items()], "gRPC ports, evicted pods"
    assert {(it["namespace"], it["job"], it["node"]) for it in targets} == {(NAMESPACE, JOB, "node-1")}
    given: list[dict[str, str]] = []
    for server, target in zip(servers, targets, strict=True):
        labels = {key: value for key, value in target.items() if not key.startswith("__")}
        given += series(server.page("/metrics").decode(), labels)
    found = published(NAMESPACE, JOB, [*pods])
    files = {part.where.partition(":")[0] for part in found}
    assert files >= {"adapter.yaml", "scaledobject.yaml", "prometheusrule.yaml", "dashboard.json"}
    answers = dict.fromkeys((comparisons_answer(part.query) for part in found if NEEDS_A_GPU not in part.query), True)
    answers["fastqps_saturation_ratio > bool 99"] = True
    # A name that is misspelt, a label that no series has, and a comparison that does not hold.
    answers |= dict.fromkeys(
        (
            "sum(fastqps_satturation_ratio)",
            'fastqps_saturation_ratio{namespace="other"}',
            "fastqps_saturation_ratio > 99",
        ),
        False,
    )
    tests = [answer(f"count({query}) > bool 0", {"{}": 1} if it_does else {}) for query, it_does in answers.items()]
    (adapter,) = (part.query for part in found if part.where == "adapter.yaml: fastqps_saturation_ratio")
    # The HPA wants one value for each of its pods, and the pods' names.
    tests.append(answer(f"count by (pod) ({adapter})", {named("", {"pod": pod}): 1 for pod in pods}))
    check_rules(tmp_path, {"interval": "5s", "input_series": given, "promql_expr_test": tests})


def answer(query: str, samples: dict[str, int]) -> dict[str, object]:
    expected = [{"labels": labels, "value": value} for labels, value in samples.items()]
    return {"expr": query, "eval_time": AT, "exp_samples": expected}


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ("a > 1", "a > bool 1"),
        ('a{b!="c", d=~"<e>"} >= 0.5 and b == bool 1', 'a{b!="c", d=~"<e>"} >= bool 0.5 and b == bool 1'),
        ('label_replace(a, "b", "x>y", "", "") != 2', 'label_replace(a, "b", "x>y", "", "") != bool 2'),
    ],
)
def test_comparisons_that_answer(query: str, answers: str) -> None:
    assert comparisons_answer(query) == answers
