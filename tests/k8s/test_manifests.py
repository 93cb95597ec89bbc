"""k8s/: every manifest is built, valid, and fits the server and its neighbours. Built in Python; kubectl must agree."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from crds import SCHEMAS
from kustomize import build
from serving import PATIENCE_S

from fastqps.config import SETTINGS, Config, load
from loadgen.flags import parser

pytestmark = pytest.mark.compute

kubernetes_validate = pytest.importorskip("kubernetes_validate")

K8S = Path(__file__).parents[2] / "k8s"
VERSIONS = ("1.30", "1.34")  # the oldest that has every field in use as stable or beta, and a recent one
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
ALONE = ("load-test", "example")
Object = dict[str, Any]


def overlay(name: str, *components: str) -> list[Object]:
    return build(K8S / "overlays" / name, tuple(f"../../components/{component}" for component in components))


def everything() -> list[tuple[str, list[Object]]]:
    """All that somebody can apply: each overlay bare, with each component, and with all that go together."""
    together = tuple(name for name in COMPONENTS if name != "hpa")  # KEDA makes an HPA of its own
    choices = [(), *((name,) for name in COMPONENTS), together]
    found = [
        ("+".join((name, *chosen)), overlay(name, *chosen)) for name, chosen in itertools.product(OVERLAYS, choices)
    ]
    return [*found, *((name, build(K8S / name)) for name in ALONE)]


BUILT = everything()
by_build = pytest.mark.parametrize("objects", [found for _, found in BUILT], ids=[name for name, _ in BUILT])


def validate(thing: Object, version: str) -> None:
    if thing["kind"] in SCHEMAS:
        jsonschema.validate(thing, SCHEMAS[thing["kind"]])
    else:
        kubernetes_validate.validate(thing, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
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


@pytest.mark.parametrize("component", ["", "keda", "monitoring", "gateway", "inference-extension", "hpa"])
def test_a_field_that_does_not_exist_is_found(component: str) -> None:
    """The check above can fail, of each kind of object."""
    kinds = {
        "": "Deployment", "keda": "ScaledObject", "monitoring": "PodMonitor", "gateway": "GRPCRoute",
        "inference-extension": "InferencePool", "hpa": "HorizontalPodAutoscaler",
    }  # fmt: skip
    (thing,) = (t for t in overlay("cpu", *filter(None, [component])) if t["kind"] == kinds[component])
    validate(thing, VERSIONS[0])
    thing["spec"]["replicaz"] = 1
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        validate(thing, VERSIONS[0])


def has_kustomize() -> bool:
    """Whether there is a kubectl whose kustomize knows components and labels, which Debian's does not."""
    if not shutil.which("kubectl"):
        return False
    told = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, timeout=PATIENCE_S).stdout
    found = re.search(r"Kustomize Version: v(\d+)", told)
    return bool(found and int(found[1]) >= 5)


@pytest.mark.skipif(not has_kustomize(), reason="no kubectl with kustomize 5 or newer")
def test_kubectl_builds_the_same(tmp_path: Path) -> None:
    together = [name for name in COMPONENTS if name not in ("hpa", "capacity")]
    for name in (*(f"overlays/{overlay}" for overlay in OVERLAYS), *ALONE):
        assert keyed(kubectl(K8S / name)) == keyed(build(K8S / name)), name
    for name in OVERLAYS:
        # As a user's own repository does it, with a capacity file of its own.
        here = tmp_path / name
        here.mkdir()
        (here / "capacity.json").write_text('{"rate": 1, "who": "<ä>"}\n')
        plan = {
            "kind": "Kustomization",
            "namespace": "fastqps",
            "resources": [os.path.relpath(K8S / "overlays" / name, here)],
            "components": [os.path.relpath(K8S / "components" / c, here) for c in (*together, "capacity")],
            "configMapGenerator": [{"name": "fastqps-capacity", "files": ["capacity.json"]}],
        }
        (here / "kustomization.yaml").write_text(yaml.safe_dump(plan))
        assert keyed(kubectl(here)) == keyed(build(here)), name


def kubectl(folder: Path) -> list[Object]:
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return [*yaml.load_all(done.stdout, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]


def keyed(objects: list[Object]) -> dict[tuple[str, str], Object]:
    found = {(thing["kind"], thing["metadata"]["name"]): thing for thing in objects}
    assert len(found) == len(objects), "two objects of one name"
    return found


# ---- what the schemas cannot know


def one(objects: list[Object], kind: str) -> Object:
    (found,) = (thing for thing in objects if thing["kind"] == kind)
    return found


def templates(objects: list[Object]) -> list[Object]:
    return [thing["spec"]["template"] for thing in objects if thing["kind"] in ("Deployment", "Job")]


def settings(objects: list[Object]) -> Config:
    """What the server makes of its file and its environment, by its own code."""
    (pod,) = (thing["spec"]["template"]["spec"] for thing in objects if thing["kind"] == "Deployment")
    (container,) = pod["containers"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "settings")
    (file,) = (thing for thing in objects if thing["metadata"]["name"] == volume["configMap"]["name"])
    assert container["args"] == ["serve", "--config=/etc/fastqps/fastqps.toml"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    own = {name for name in environment if name.startswith("FASTQPS_")}
    assert own <= {setting.variable for setting in SETTINGS}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as given:
        given.write(file["data"]["fastqps.toml"])
        given.flush()
        return load({}, environment, given.name).config


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
    assert ports == {"grpc": config.port, "admin": config.admin_port}
    assert config.host == config.admin_host == "0.0.0.0", "probes, Prometheus and clients come from outside the pod"
    needed_s = (config.lame_duck_ns + config.drain_timeout_ns) / 1e9
    assert config.lame_duck_ns and pod["terminationGracePeriodSeconds"] >= needed_s + 5
    assert "replicas" not in deployment["spec"], "an autoscaler owns the number"
    cores = int(container["resources"]["limits"]["cpu"])
    assert config.frontdoors and config.dispatchers and config.frontdoors + config.dispatchers < cores
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
    mounts = [
        mount["mountPath"]
        for mount in one(overlay("cpu", component), "Deployment")["spec"]["template"]["spec"]["containers"][0][
            "volumeMounts"
        ]
    ]
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
    for thing in objects:
        spec = thing.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            assert selector.get("matchLabels", selector).items() <= labels.items(), thing["kind"]
        if thing["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if thing["kind"] == "PodMonitor":
            assert {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]} <= ports
            assert labels[spec["jobLabel"]] == "fastqps", "the job that rules and dashboard ask for"
        if thing["kind"] == "NetworkPolicy":
            assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == ports
        if thing["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
            assert ("Deployment", spec["scaleTargetRef"]["name"]) in names
        if thing["kind"] == "GRPCRoute":
            backends = {backend["name"] for rule in spec["rules"] for backend in rule["backendRefs"]}
            assert {("Service", backend) for backend in backends} <= names
    assert ("ServiceAccount", pod["serviceAccountName"]) in names
    assert ("PriorityClass", pod["priorityClassName"]) in names
    given = {"fastqps-capacity"}  # by the user
    mounted = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    assert {("ConfigMap", name) for name in mounted - given} <= names


def test_the_load_test_is_a_command_of_the_generator_and_ends_in_time() -> None:
    job = one(build(K8S / "load-test"), "Job")["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "loadgen"]
    options = parser().parse_args(container["args"])  # SystemExit: a flag or a value that it does not know
    service = one(overlay("cpu"), "Deployment")["metadata"]["name"]
    assert options.target == (service, 50051)
    assert options.threads <= int(container["resources"]["limits"]["cpu"])
    assert job["activeDeadlineSeconds"] > 2 * (options.warmup + options.duration) / 1e9
    assert job["backoffLimit"] == 0, "a verdict is no failure to be tried again"


def test_both_autoscalers_do_the_same() -> None:
    hpa = one(overlay("gpu", "hpa"), "HorizontalPodAutoscaler")["spec"]
    keda = one(overlay("gpu", "keda"), "ScaledObject")["spec"]
    target = Config().target_saturation
    (metric,) = hpa["metrics"]
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": f"{target * 1000:.0f}m"}
    (trigger,) = keda["triggers"]
    assert float(trigger["metadata"]["threshold"]) == target
    # With AverageValue the query must be a total: one that is divided already makes the trigger do nothing.
    assert trigger["metricType"] == "AverageValue" and trigger["metadata"]["query"].startswith("sum(")
    assert trigger["metadata"]["ignoreNullValues"] == "false" and keda["fallback"]
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == hpa["behavior"]
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (hpa["minReplicas"], hpa["maxReplicas"])
    assert hpa["minReplicas"] >= 2
