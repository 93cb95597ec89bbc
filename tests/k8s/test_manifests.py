"""k8s/: every manifest is built, valid, and fits the server and its neighbours. Built in Python; kubectl must agree."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from builds import (
    ALONE,
    BUILT,
    K8S,
    OVERLAYS,
    TOGETHER,
    UNFIT,
    Object,
    by_build,
    cores,
    every,
    fitting,
    one,
    overlay,
    settings,
    templates,
)
from crds import SCHEMAS
from kustomize import build
from nightly import nightly_but

from fastqps.config import Config
from fastqps.config.edge import upstreams

pytestmark = pytest.mark.compute

kubernetes_validate = pytest.importorskip("kubernetes_validate")

VERSIONS = ("1.30", "1.34")  # the oldest that has every field in use as stable or beta, and a recent one


def validate(thing: Object, version: str) -> None:
    if thing["kind"] in SCHEMAS:
        jsonschema.validate(thing, SCHEMAS[thing["kind"]])
    else:
        kubernetes_validate.validate(thing, version, strict=True)


@pytest.mark.parametrize("version", nightly_but(VERSIONS[:1], VERSIONS))
def test_every_object_is_valid(version: str) -> None:
    seen: set[str] = set()
    for name, objects in BUILT:
        for thing in objects:
            text = json.dumps(thing)
            if text not in seen:
                seen.add(text)
                try:
                    validate(thing, version)
                except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
                    raise AssertionError(f"{name}: {thing['kind']} {thing['metadata']['name']}: {error}") from None


@pytest.mark.parametrize("kind", ["Deployment", "NetworkPolicy", "HorizontalPodAutoscaler", *SCHEMAS])
def test_a_field_that_does_not_exist_is_found(kind: str) -> None:
    """The check above can fail, of each kind of object."""
    thing = copy.deepcopy(next(thing for _, objects in BUILT for thing in objects if thing["kind"] == kind))
    validate(thing, VERSIONS[0])
    thing["spec"]["replicaz"] = 1
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        validate(thing, VERSIONS[0])


def has_kustomize() -> bool:
    """Whether there is a kubectl whose kustomize knows components and labels, which Debian's does not."""
    if not shutil.which("kubectl"):
        return False
    told = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True).stdout
    found = re.search(r"Kustomize Version: v(\d+)", told)
    return bool(found and int(found[1]) >= 5)


@pytest.mark.skipif(not has_kustomize(), reason="no kubectl with kustomize 5 or newer")
def test_kubectl_builds_the_same(tmp_path: Path) -> None:
    for name in (*(f"overlays/{name}" for name in OVERLAYS), *ALONE):
        assert keyed(read(kubectl(K8S / name).stdout)) == keyed(build(K8S / name)), name
    for components in UNFIT:
        done = kubectl(of_a_user(tmp_path / "-".join(components), "cpu", components))
        assert done.returncode and "test failed" in done.stderr, components


@pytest.mark.nightly
@pytest.mark.skipif(not has_kustomize(), reason="no kubectl with kustomize 5 or newer")
def test_kubectl_builds_the_same_of_a_user(tmp_path: Path) -> None:
    for name, together in zip(OVERLAYS, itertools.cycle(TOGETHER), strict=False):
        # As a user's own repository does it, with a capacity file of its own.
        here = of_a_user(tmp_path / name, name, fitting(name, together))
        done = kubectl(here)
        assert done.returncode == 0, done.stderr
        assert keyed(read(done.stdout)) == keyed(build(here)), name


def of_a_user(here: Path, name: str, components: tuple[str, ...]) -> Path:
    here.mkdir()
    (here / "capacity.json").write_text('{"rate": 1, "who": "<ä>"}\n')
    plan = {
        "kind": "Kustomization",
        "namespace": "fastqps",
        "resources": [os.path.relpath(K8S / "overlays" / name, here)],
        "components": [os.path.relpath(K8S / "components" / c, here) for c in components],
        "configMapGenerator": [{"name": "fastqps-capacity", "files": ["capacity.json"]}],
    }
    (here / "kustomization.yaml").write_text(yaml.safe_dump(plan))
    return here


def kubectl(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)


def read(text: str) -> list[Object]:
    return [*yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]


def keyed(objects: list[Object]) -> dict[tuple[str, str], Object]:
    found = {(thing["kind"], thing["metadata"]["name"]): thing for thing in objects}
    assert len(found) == len(objects), "two objects of one name"
    return found


# ---- what the schemas cannot know


@by_build
def test_pods_are_restricted(objects: list[Object]) -> None:
    """The strictest of Kubernetes' pod security standards, and a root file system that nobody writes to."""
    for template in templates(objects):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
        assert not pod.get("hostNetwork") and not pod.get("hostIPC")
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert "/tmp" in mounts and not any("subPath" in mount for mount in container["volumeMounts"])
        for volume in pod["volumes"]:
            assert "hostPath" not in volume and ("emptyDir" not in volume or volume["emptyDir"].get("sizeLimit"))
            assert volume["name"] in {mount["name"] for c in pod["containers"] for mount in c["volumeMounts"]}


@by_build
def test_pods_are_guaranteed_whole_cores(objects: list[Object]) -> None:
    for template in templates(objects):
        for container in template["spec"]["containers"]:
            wants, may = container["resources"]["requests"], container["resources"]["limits"]
            for resource in ("cpu", "memory", *(key for key in may if "gpu" in key)):
                assert wants[resource] == may[resource], resource
            assert may["cpu"].isdecimal(), "a static CPU manager gives whole cores alone"


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_suits_the_server(name: str) -> None:
    objects = overlay(name)
    config, deployment = settings(objects), one(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": config.port, "http": config.http_port, "admin": config.admin_port}
    assert config.host == config.admin_host == "0.0.0.0", "probes, Prometheus and clients come from outside the pod"
    assert "replicas" not in deployment["spec"], "an autoscaler owns the number"
    assert ("nvidia.com/gpu" in container["resources"]["limits"]) == config.device.startswith("cuda")
    image = container["image"].rpartition("-")[2]
    assert image == ("gpu" if config.device.startswith("cuda") else "cpu")
    if config.mps == "on":
        (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == "/dev/shm")
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mount["name"])
        assert volume["emptyDir"]["medium"] == "Memory"
    for probe, page in (("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")):
        assert container[probe]["httpGet"] == {"path": page, "port": "admin"}


@pytest.mark.parametrize("component", ["tls", "capacity", "models"])
def test_a_component_sets_settings_that_exist(component: str) -> None:
    before, after = settings(overlay("cpu")), settings(overlay("cpu", component))
    assert before != after
    changed = {key for key, value in vars(after).items() if value != vars(before)[key]}
    (template,) = templates(overlay("cpu", component))
    mounts = [mount["mountPath"] for mount in template["spec"]["containers"][0]["volumeMounts"]]
    for key in changed:
        text = "".join(vars(after)[key])
        assert any(text.partition("=")[2].startswith(f"{m}/") or text.startswith(f"{m}/") for m in mounts), text


@by_build
def test_what_selects_finds_and_what_names_exists(objects: list[Object]) -> None:
    if not (deployments := [thing for thing in objects if thing["kind"] == "Deployment"]):
        return
    template = deployments[0]["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    ports = {port["name"] for container in pod["containers"] for port in container["ports"]}
    names = {(thing["kind"], thing["metadata"]["name"]) for thing in objects}
    services = ((it["metadata"]["name"], it["spec"]["ports"]) for it in every(objects, "Service"))
    served = {(name, port["port"]) for name, each in services for port in each}
    for thing in objects:
        spec = thing.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            assert selector.get("matchLabels", selector).items() <= labels.items(), thing["kind"]
        if thing["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if thing["kind"] == "PodMonitor":
            for endpoint in spec["podMetricsEndpoints"]:
                assert endpoint.keys() == {"port", "path", "interval", "scrapeTimeout"} and endpoint["port"] in ports
            assert labels[spec["jobLabel"]] == "fastqps", "the job that rules and dashboard ask for"
        if thing["kind"] == "NetworkPolicy":
            assert {port["port"] for rule in spec.get("ingress", ()) for port in rule["ports"]} <= ports
        if thing["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
            assert ("Deployment", spec["scaleTargetRef"]["name"]) in names
        if thing["kind"] == "GRPCRoute":
            backends = {(one["name"], one["port"]) for rule in spec["rules"] for one in rule["backendRefs"]}
            assert backends <= served
    assert ("ServiceAccount", pod["serviceAccountName"]) in names
    assert ("PriorityClass", pod["priorityClassName"]) in names
    given = {"fastqps-capacity"}  # by the user
    mounted = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    assert {("ConfigMap", name) for name in mounted - given} <= names


def test_an_edge_finds_the_servers_and_may_reach_them() -> None:
    edge, servers = overlay("edge"), overlay("gpu", "hpa")
    ((host, port),) = upstreams(settings(edge))
    name, space, _ = host.split(".")
    (service,) = (thing for thing in servers if thing["metadata"]["name"] == name)
    assert service["metadata"]["namespace"] == space != one(edge, "Deployment")["metadata"]["namespace"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["ports"][0]["port"] == port
    policies = (thing["spec"] for thing in edge if thing["kind"] == "NetworkPolicy")
    rules = [rule for policy in policies for rule in policy.get("egress", ())]
    (out,) = (rule for rule in rules if rule["ports"] == [{"port": port, "protocol": "TCP"}])
    assert out["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}]


def test_edges_grow_by_their_own_work() -> None:
    config = settings(overlay("edge"))
    assert config.frontdoors and config.dispatchers
    share = Config().target_saturation * (config.frontdoors + config.dispatchers) / cores(overlay("edge"))
    (metric,) = one(overlay("edge"), "HorizontalPodAutoscaler")["spec"]["metrics"]
    assert metric["resource"] == {
        "name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": int(100 * share)},
    }


def test_both_autoscalers_do_the_same() -> None:
    hpa = one(overlay("gpu", "hpa"), "HorizontalPodAutoscaler")["spec"]
    keda = one(overlay("gpu", "keda"), "ScaledObject")["spec"]
    target = Config().target_saturation
    (metric,) = hpa["metrics"]
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": f"{target * 1000:.0f}m"}
    (trigger,) = keda["triggers"]
    assert trigger["type"] == "prometheus"
    assert trigger["metadata"].keys() == {"serverAddress", "query", "threshold", "ignoreNullValues"}
    assert float(trigger["metadata"]["threshold"]) == target
    # With AverageValue the query must be a total: one that is divided already makes the trigger do nothing.
    assert trigger["metricType"] == "AverageValue" and trigger["metadata"]["query"].startswith("sum(")
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    # A first apply and a Prometheus that has lost its series are three failures too: no reason to buy pods.
    assert keda["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert keda["fallback"]["replicas"] == keda["minReplicaCount"]
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == hpa["behavior"]
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (hpa["minReplicas"], hpa["maxReplicas"])
    assert hpa["minReplicas"] >= 2
