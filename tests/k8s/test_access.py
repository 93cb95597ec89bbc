"""k8s/: who may reach the pods, and speaks what they speak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builds import ALONE, K8S, UNFIT, Object, build, by_build, every, one, overlay, settings
from kustomize import Unfit

from loadgen.flags import parser

pytestmark = pytest.mark.compute

README = (K8S / "README.md").read_text()
NAMESPACE = "kubernetes.io/metadata.name"  # Kubernetes itself sets it


def peers(objects: list[Object]) -> Iterator[tuple[Object, set[Any]]]:
    """(who, ports) of each sentence of the network policies, both ways."""
    for policy in every(objects, "NetworkPolicy"):
        for rule in (*policy["spec"].get("ingress", ()), *policy["spec"].get("egress", ())):
            for peer in (*rule.get("from", ()), *rule.get("to", ())):
                yield peer, {port["port"] for port in rule["ports"]}


@by_build
def test_each_label_that_a_network_policy_asks_for_is_told_to_the_user(objects: list[Object]) -> None:
    """A label that nobody knows of keeps everybody out, without a word."""
    for peer, _ in peers(objects):
        for selector in peer.values():
            for key, value in selector.get("matchLabels", {}).items():
                wanted = f"`{value}`" if key == NAMESPACE else f"`{key}={value}`"
                assert wanted in README, peer
            for expression in selector.get("matchExpressions", ()):
                assert f"`{expression['key']}`" in README, peer


@by_build
def test_a_gateway_may_come_in(objects: list[Object]) -> None:
    let_in = {
        peer["namespaceSelector"]["matchLabels"][NAMESPACE]
        for peer, ports in peers(objects)
        if "grpc" in ports and NAMESPACE in peer.get("namespaceSelector", {}).get("matchLabels", {})
    }
    for route in every(objects, "GRPCRoute"):
        assert {parent["namespace"] for parent in route["spec"]["parentRefs"]} <= let_in
    assert let_in or not every(objects, "InferencePool")


@by_build
def test_all_speak_to_the_pods_what_the_pods_speak(objects: list[Object]) -> None:
    if not every(objects, "Deployment"):
        return
    secure = bool(settings(objects).tls_cert)
    services = {thing["metadata"]["name"]: thing for thing in every(objects, "Service")}
    for service in services.values():
        port, *others = service["spec"]["ports"]
        assert port["appProtocol"] == ("https" if secure else "kubernetes.io/h2c")
        assert [(other["name"], "appProtocol" in other) for other in others] in ([], [("http", False)])
    for pool in every(objects, "InferencePool"):
        assert not secure and pool["spec"]["appProtocol"] == "kubernetes.io/h2c"
        assert pool["spec"]["endpointPickerRef"]["port"]["number"] and pool["spec"]["targetPorts"]
    routed = {
        backend["name"]
        for route in every(objects, "GRPCRoute")
        for rule in route["spec"]["rules"]
        for backend in rule["backendRefs"]
    }
    targets = [target for policy in every(objects, "BackendTLSPolicy") for target in policy["spec"]["targetRefs"]]
    if routed:
        assert {target["name"] for target in targets} == (routed if secure else set())
    for target in targets:
        assert target["sectionName"] in {port["name"] for port in services[target["name"]]["spec"]["ports"]}
    for policy in every(objects, "BackendTLSPolicy"):
        space, name = policy["metadata"]["namespace"], policy["spec"]["targetRefs"][0]["name"]
        assert policy["spec"]["validation"]["hostname"] == f"{name}.{space}.svc"


@pytest.mark.parametrize("components", UNFIT, ids="+".join)
def test_what_does_not_work_together_does_not_build(components: tuple[str, ...]) -> None:
    with pytest.raises(Unfit):
        overlay("cpu", *components)


@pytest.mark.parametrize("name", [name for name in ALONE if name.startswith("load-test")])
def test_the_load_test_is_a_command_of_the_generator_and_ends_in_time(name: str) -> None:
    objects = build(K8S / name)
    job = one(objects, "Job")["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python", "-m", "loadgen"]
    options = parser().parse_args(container["args"])  # SystemExit: a flag or a value that it does not know
    deployment = one(overlay("cpu"), "Deployment")["metadata"]
    host = f"{deployment['name']}.{deployment['namespace']}.svc" if options.tls_ca else deployment["name"]
    assert options.target == (host, 50051)
    assert options.threads <= int(container["resources"]["limits"]["cpu"])
    assert job["activeDeadlineSeconds"] > 2 * (options.warmup + options.duration) / 1e9
    assert job["backoffLimit"] == 0, "a verdict is no failure to be tried again"


def test_there_is_a_load_test_for_pods_with_tls() -> None:
    """``example`` has such pods."""
    job = one(build(K8S / "load-test-tls"), "Job")["spec"]["template"]["spec"]
    (container,) = job["containers"]
    options = parser().parse_args(container["args"])
    folder, _, file = options.tls_ca.rpartition("/")
    (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == folder)
    (volume,) = (volume for volume in job["volumes"] if volume["name"] == mount["name"])
    assert [item["path"] for item in volume["secret"]["items"]] == [file], "who has signed, and not the key"
    ((key, value),) = options.header
    assert key == "authorization"
    (variable,) = container["env"]
    assert value == f"Bearer $({variable['name']})"
    example = build(K8S / "example")
    assert settings(example).auth_token_file and settings(example).tls_cert
    volumes = one(example, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"]["secretName"] in {each["secret"]["secretName"] for each in volumes if "secret" in each}


def test_the_example_is_picked_up_by_a_prometheus_of_the_usual_chart() -> None:
    example = build(K8S / "example")
    for kind in ("PodMonitor", "PrometheusRule"):
        assert one(example, kind)["metadata"]["labels"]["release"] == "kube-prometheus-stack"
