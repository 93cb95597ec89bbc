"""A real Prometheus that scrapes servers under test, with the very configuration and rules that k8s/ ships."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from expressions import K8S, RULES
from ports import free_port
from serving import PATIENCE_S


class Prometheus:
    """``pods``: pod name → host:port of its admin port. Use it as a context manager."""

    def __init__(self, folder: Path, namespace: str, pods: dict[str, str]) -> None:
        self._port = free_port()
        self._folder = folder
        self.config = configure(folder, namespace, pods)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Prometheus:
        flags = ("--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn")
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={self.config}", *flags], cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready():
            code = self._process.poll()
            assert code is None and time.monotonic() < deadline, f"Prometheus: {code}\n{self.log()}"
            time.sleep(0.05)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)

    def query(self, text: str) -> list[dict[str, Any]]:
        """The instant vector (or the one scalar) that a query answers with. AssertionError: it is no query."""
        answer = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        assert answer["status"] == "success", f"{answer.get('error')}: {text}"
        data = answer["data"]
        found: list[dict[str, Any]] = (
            [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]
        )
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health."""
        return [rule for group in self._get("/api/v1/rules")["data"]["groups"] for rule in group["rules"]]

    def log(self) -> str:
        return (self._folder / "log").read_text()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:  # what is wrong with a query is said in the body
            return json.load(error)


def configure(folder: Path, namespace: str, pods: dict[str, str]) -> Path:
    """Writes the shipped rules and the shipped configuration into ``folder``, but the pods are told instead of
    discovered: with the labels that Kubernetes' discovery would give them, so that the relabelling is the shipped one.
    Every second instead of every five."""
    (folder / "fastqps-rules.yaml").write_text(yaml.safe_dump(RULES))
    config: dict[str, Any] = yaml.safe_load((K8S / "prometheus" / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    (scrape,) = config["scrape_configs"]
    del scrape["kubernetes_sd_configs"]
    scrape |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    meta = "__meta_kubernetes"
    scrape["static_configs"] = [
        {
            "targets": [address],
            "labels": {
                f"{meta}_namespace": namespace,
                f"{meta}_pod_name": pod,
                f"{meta}_pod_node_name": "node-1",
                f"{meta}_pod_label_app_kubernetes_io_name": "fastqps",
                f"{meta}_pod_container_port_name": port,
                f"{meta}_pod_phase": phase,
            },
        }
        # The gRPC port is discovered too, and what is left of a pod that was evicted: neither must be scraped.
        for pod, admin in pods.items()
        for port, address, phase in (
            ("admin", admin, "Running"),
            ("grpc", "127.0.0.1:1", "Running"),
            ("admin", "127.0.0.1:2", "Failed"),
        )
    ]
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(config))
    return path
