"""A real Prometheus scrapes real servers under load, and every expression that the project publishes has an answer.

Autoscalers, rules, alarms, dashboard and documents are read from their files. What is misspelt, not on a
server's page or does not join answers nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from expressions import Published, comparisons_answer, published
from prometheus_server import Prometheus
from serving import PATIENCE_S, Server, until

import fastqps
from fastqps.errors import CallError
from fastqps.models import load_card

pytestmark = pytest.mark.skipif(not shutil.which("prometheus"), reason="no Prometheus (packages.apt: prometheus)")

NAMESPACE, JOB = "fastqps", "fastqps"
# Of NVIDIA's exporter: there are none without a GPU and the exporter beside it.
NEEDS_A_GPU = "DCGM_FI_"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, dict[str, Server]]]:
    """Three pods: an encoder with all that can be configured, a generator, and an edge in front of it. Load on all
    until the tests are done."""
    folder = tmp_path_factory.mktemp("cluster")
    servers: list[Server] = []
    stop = threading.Event()
    threads: list[threading.Thread] = []
    try:
        servers.append(Server(*configured(folder)))
        servers.append(Server("--model=grammar", "--max-running=8"))
        servers.append(Server("--device=remote", f"--upstream={servers[1].address}", "--model=grammar"))
        token = "secret-of-the-test"
        clients = (
            fastqps.Client(servers[0].address, tls_ca=str(folder / "cert.pem"), token=token),
            *(fastqps.Client(server.address, model="grammar") for server in servers[1:]),
        )
        threads += [threading.Thread(target=load, args=(client, stop)) for client in clients]
        for thread in threads:
            thread.start()
        pods = {f"fastqps-{i}": server.admin for i, server in enumerate(servers)}
        with Prometheus(folder, NAMESPACE, pods) as prometheus:
            # Some scrapes, so that each rate has its points, and then the rules over them.
            until(lambda: prometheus.query("min(count_over_time(up[1m])) >= 5"), "five scrapes of each pod")
            until(lambda: prometheus.query("job:fastqps_items:rate1m > 0"), "a recorded rate")
            yield prometheus, dict(zip(pods, servers, strict=True))
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        for server in servers:
            server.kill()


def configured(folder: Path) -> list[str]:
    """An encoder with a capacity file, a certificate, a token and traces that nobody takes."""
    card = load_card("minilm")
    capacity = {
        "schema_version": 1, "model": "minilm", "version": card.version, "device": "null", "settings": {},
        "rate": 10_000, "in_flight": 64, "measured": "2026-01-01T00:00:00Z", "commit": "abc", "command": "find-max",
    }  # fmt: skip
    (folder / "capacity.json").write_text(json.dumps(capacity))
    (folder / "tokens").write_text("secret-of-the-test\n")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    command = ["openssl", "req", "-x509", *key, "-out", "cert.pem", "-days", "30", *name]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=PATIENCE_S)
    files = {"capacity": "capacity.json", "tls-cert": "cert.pem", "tls-key": "key.pem", "auth-token-file": "tokens"}
    # Nobody listens there: spans are made, and dropped.
    traces = ["--otlp-endpoint=http://127.0.0.1:1", "--trace-ratio=1"]
    return [*(f"--{flag}={folder / file}" for flag, file in files.items()), *traces]


def load(client: fastqps.Client, stop: threading.Event) -> None:
    """Some requests that are answered, and some that are not."""
    with client:
        while not stop.wait(0.02):
            for text in ("She have a apple.", "word " * 4000):
                try:
                    client.predict(text)
                except CallError:
                    continue


def test_every_published_expression_answers(cluster: tuple[Prometheus, dict[str, Server]]) -> None:
    prometheus, servers = cluster
    found = published(NAMESPACE, JOB, [*servers])
    files = {part.where.partition(":")[0] for part in found}
    assert files >= {"adapter.yaml", "scaledobject.yaml", "prometheusrule.yaml", "dashboard.json"}
    ours = [part for part in found if NEEDS_A_GPU not in part.query]
    silent = ours

    def all_answer() -> bool:  # a rate, or a rate's record, takes some scrapes; one that failed leaves a gap
        nonlocal silent
        silent = [part for part in silent if not prometheus.query(comparisons_answer(part.query))]
        return not silent

    try:
        until(all_answer, "an answer to all")
    except AssertionError:
        raise AssertionError("no answer to\n" + "\n".join(map(told, silent))) from None


def told(part: Published) -> str:
    return f"  {part.where}\n      {part.query}"


def test_the_adapter_tells_the_pods_apart(cluster: tuple[Prometheus, dict[str, Server]]) -> None:
    """The HPA wants one value for each of its pods, and the pods' names."""
    prometheus, servers = cluster
    where = "adapter.yaml: fastqps_saturation_ratio"
    (query,) = (part.query for part in published(NAMESPACE, JOB, [*servers]) if part.where == where)
    until(lambda: {sample["metric"]["pod"] for sample in prometheus.query(query)} == set(servers), "all pods")


def test_rules_are_evaluated_and_only_pods_are_scraped(cluster: tuple[Prometheus, dict[str, Server]]) -> None:
    prometheus, servers = cluster
    until(lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()), "all are evaluated")
    rules = prometheus.rules()
    assert len(rules) > 30
    assert not [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"]
    (up,) = prometheus.query("count(up)")
    assert int(up["value"][1]) == len(servers), "gRPC ports and evicted pods are discovered too, and left alone"
    (labelled,) = prometheus.query(
        f'count(up{{namespace="{NAMESPACE}", job="{JOB}", node="node-1", pod=~"fastqps-."}})'
    )
    assert int(labelled["value"][1]) == len(servers)


def test_what_is_not_there_does_not_answer(cluster: tuple[Prometheus, dict[str, Server]]) -> None:
    """The test above can fail: a name that is misspelt, a label that no series has."""
    prometheus, _ = cluster
    for query in (
        "sum(fastqps_satturation_ratio)",
        'fastqps_saturation_ratio{namespace="other"}',
        "fastqps_saturation_ratio > 99",
    ):
        assert not prometheus.query(query)
    until(lambda: prometheus.query(comparisons_answer("fastqps_saturation_ratio > 99")), "an answer")


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
