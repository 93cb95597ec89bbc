"""k8s/kserve fits the server and KServe's rules that its schema does not have; and a pod made of it is valid."""

from __future__ import annotations

import copy
import re

import pytest
from builds import K8S, one
from kustomize import build
from test_image import serve_parser

from fastqps.config import load

pytestmark = pytest.mark.compute

kubernetes_validate = pytest.importorskip("kubernetes_validate")

OBJECTS = build(K8S / "kserve")
RUNTIME, SERVICE = one(OBJECTS, "ClusterServingRuntime"), one(OBJECTS, "InferenceService")
(CONTAINER,) = RUNTIME["spec"]["containers"]


def test_its_pod_is_valid() -> None:
    """As Kubernetes knows pods: KServe's schema and this one both have to allow it."""
    spec = {key: RUNTIME["spec"][key] for key in ("containers", "volumes")}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    kubernetes_validate.validate(pod, "1.34", strict=True)
    wrong = copy.deepcopy(pod)
    wrong["spec"]["containers"][0]["portz"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


def test_the_server_takes_its_flags() -> None:
    """With the name in the place where KServe puts it."""
    assert CONTAINER["name"] == "kserve-container", "KServe finds the server's container by this name"
    command, *flags = [flag.replace("{{.Name}}", SERVICE["metadata"]["name"]) for flag in CONTAINER["args"]]
    assert command == "serve"
    given = {key.replace("_", "-"): value for key, value in vars(serve_parser().parse_args(flags)).items()}
    config = load({key: value for key, value in given.items() if value is not None}, {}).config
    assert config.model == ("my-encoder=/mnt/models",), "where KServe puts the model's files"
    assert [port["containerPort"] for port in CONTAINER["ports"]] == [config.http_port, config.port, config.admin_port]
    assert config.host == config.admin_host == "0.0.0.0"
    annotations = RUNTIME["spec"]["annotations"]
    assert annotations["prometheus.kserve.io/port"] == str(config.admin_port)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert CONTAINER[probe]["httpGet"]["port"] == config.admin_port
    grace_s = SERVICE["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert grace_s * 10**9 >= config.lame_duck_ns + config.drain_timeout_ns + 20 * 10**9


def test_the_service_names_the_runtime() -> None:
    model = SERVICE["spec"]["predictor"]["model"]
    assert model["runtime"] == RUNTIME["metadata"]["name"]
    assert model["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]
    assert model["modelFormat"]["name"] in {found["name"] for found in RUNTIME["spec"]["supportedModelFormats"]}
    assert re.fullmatch(r"registry\.example\.com/fastqps:[\w.]+-cpu", CONTAINER["image"])
