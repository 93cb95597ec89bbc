"""promtool, and what it checks: the configuration and rules that k8s/ ships, over series that a test names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from expressions import K8S, RULES

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (packages.apt: prometheus)")


def promtool(*words: str, cwd: Path) -> str:
    done = subprocess.run(["promtool", *words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_rules(folder: Path, *tests: dict[str, Any]) -> None:
    """Runs promtool's unit tests with the shipped rules, which are evaluated every minute."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(RULES))
    plan = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [*tests]}
    (folder / "tests.yaml").write_text(yaml.safe_dump(plan))
    assert "SUCCESS" in promtool("test", "rules", "tests.yaml", cwd=folder)


def configure(folder: Path, namespace: str, pods: dict[str, str]) -> Path:
    """Writes the shipped rules and the shipped configuration into ``folder``, but the pods are told instead of
    discovered: with the labels that Kubernetes' discovery would give them, so that the relabelling is the shipped
    one. ``pods``: the addresses of their admin ports."""
    (folder / "fastqps-rules.yaml").write_text(yaml.safe_dump(RULES))
    config: dict[str, Any] = yaml.safe_load((K8S / "prometheus" / "prometheus.yaml").read_text())
    (scrape,) = config["scrape_configs"]
    del scrape["kubernetes_sd_configs"]
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
