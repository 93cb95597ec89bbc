"""k8s/chart makes the objects that kustomize makes of the same files, by Helm itself; its values have their effect."""

from __future__ import annotations

import copy
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from builds import K8S, Object, every, one, overlay, settings
from test_manifests import VERSIONS, keyed, read, validate

import fastqps

HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
pytestmark = [pytest.mark.compute, pytest.mark.skipif(not HELM, reason="no helm, which make setup installs on x86-64")]

OVERLAYS = ("cpu", "gpu", "gpu-mps")
COMPONENTS = ("capacity", "hpa", "models", "monitoring", "no-spare-node", "tls")
CHOICES = [
    *itertools.product(OVERLAYS, [(), COMPONENTS]),
    *(("cpu", (component,)) for component in (*COMPONENTS, "keda")),
]


def helm(command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert HELM
    return subprocess.run([HELM, command, *map(str, arguments)], capture_output=True, text=True)


def rendered(tmp_path: Path, chart: Path = K8S / "chart", namespace: str = "fastqps", **values: Any) -> list[Object]:
    (file := tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    done = helm("template", "any", chart, "--namespace", namespace, "--values", file)
    assert done.returncode == 0, done.stderr
    return read(done.stdout)


def alike(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Without the two ways to start pods again for new settings and a label that base alone has; with sorted lists."""
    objects = copy.deepcopy(objects)
    for thing in objects:
        labels = thing["metadata"].pop("labels", {})
        if own := {key: value for key, value in labels.items() if key != "app.kubernetes.io/part-of"}:
            thing["metadata"]["labels"] = own
    pod = one(objects, "Deployment")["spec"]["template"]
    pod["metadata"]["annotations"].pop("checksum/settings", None)
    (container,) = pod["spec"]["containers"]
    for holder, key, by in (
        (container, "env", "name"),
        (container, "volumeMounts", "mountPath"),
        (pod["spec"], "volumes", "name"),
    ):
        if key in holder:
            holder[key] = sorted(holder[key], key=lambda item: item[by])
    (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "settings")
    (file,) = (thing for thing in objects if thing["metadata"]["name"] == volume["configMap"]["name"])
    file["metadata"]["name"] = volume["configMap"]["name"] = "fastqps-settings"
    return keyed(objects)


@pytest.mark.parametrize(("name", "components"), CHOICES, ids=lambda it: it if isinstance(it, str) else "+".join(it))
def test_the_chart_makes_what_kustomize_makes(name: str, components: tuple[str, ...], tmp_path: Path) -> None:
    found = alike(rendered(tmp_path, overlay=name, components=list(components)))
    for key, thing in alike(overlay(name, *components)).items():
        assert found.pop(key) == thing
    assert not found


def test_values_have_their_effect(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "components": ["monitoring", "keda", "models"],
        "image": "registry.example.com/mine:1",
        "settings": 'model = ["grammar"]\n',
        "env": [{"name": "FASTQPS_MODEL", "value": "mine=/models/mine"}],
        "deployment": {
            "template": {
                "spec": {"nodeSelector": {"pool": "x"}, "containers": [{"resources": {"limits": {"cpu": "8"}}}]}
            }
        },
        "replicas": {"min": 3, "max": 9},
        "labels": {"release": "prometheus"},
        "priorityClass": False,
    }
    objects = rendered(tmp_path, namespace="elsewhere", **values)
    for thing in objects:
        validate(thing, VERSIONS[0])
        assert thing["metadata"]["namespace"] == "elsewhere" and thing["metadata"]["labels"]["release"] == "prometheus"
    assert not every(objects, "PriorityClass")
    pod = one(objects, "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.example.com/mine:1" and pod["spec"]["nodeSelector"] == {"pool": "x"}
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "2Gi", "ephemeral-storage": "4Gi"}
    assert settings(objects).model == ("mine=/models/mine",), "the environment before the file"
    assert settings(objects).frontdoors is None, "the whole file is replaced"
    scaled = one(objects, "ScaledObject")["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"], scaled["fallback"]["replicas"]) == (3, 9, 3)
    assert 'namespace="elsewhere"' in scaled["triggers"][0]["metadata"]["query"]
    assert 'namespace="fastqps"' not in yaml.safe_dump(one(objects, "PrometheusRule"))
    others = one(rendered(tmp_path, **values | {"settings": ""}), "Deployment")["spec"]["template"]
    assert others["metadata"] != pod["metadata"], "new settings start the pods again"


@pytest.mark.parametrize(
    "value", [{"overlay": "edge"}, {"components": ["tsl"]}, {"components": ["hpa", "keda"]}, {"replica": {}}]
)
def test_a_wrong_value_is_refused(value: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="don't meet the specifications of the schema"):
        rendered(tmp_path, **value)


def test_a_package_has_the_files_that_links_lead_to(tmp_path: Path) -> None:
    assert helm("lint", "--strict", K8S / "chart").returncode == 0
    assert helm("package", K8S / "chart", "--destination", tmp_path).returncode == 0
    chart = tmp_path / f"fastqps-{fastqps.__version__}.tgz"
    assert rendered(tmp_path, chart, components=["monitoring"]) == rendered(tmp_path, components=["monitoring"])
