"""Schemas of the custom resources that k8s/ uses, of the fields that it uses: what kubernetes-validate does not know.

Each is closed: a field that is not named here is an error, as is one of another type. Taken down from the projects' own
definitions (KEDA 2.21, prometheus-operator 0.8x, Gateway API 1.4, its inference extension 1.x). A program cuts KServe's
from its definitions, because they embed most of a pod.
"""

from __future__ import annotations

from typing import Any

import kserve_schemas

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
DURATION: Schema = {"type": "string", "pattern": r"^(\d+(ms|s|m|h))+$"}
LABELS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def _object(required: dict[str, Schema], **optional: Schema) -> Schema:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def _some(items: Schema, most: int = 100) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def _one_of(*values: str) -> Schema:
    return {"enum": [*values]}


_SCALING = _object(
    {"policies": _some(_object({"type": _one_of("Percent", "Pods"), "value": PORT, "periodSeconds": PORT}))},
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    selectPolicy=_one_of("Max", "Min", "Disabled"),
)
_SCALED_OBJECT = _object(
    {
        "scaleTargetRef": _object({"name": TEXT}),
        "minReplicaCount": COUNT,
        "maxReplicaCount": COUNT,
        "triggers": _some(
            _object(
                {
                    "type": _one_of("prometheus"),
                    # KEDA reads a trigger's settings as text, numbers and booleans too.
                    "metadata": _object(
                        {
                            "serverAddress": TEXT,
                            "query": TEXT,
                            "threshold": {"type": "string", "pattern": r"^\d*\.?\d+$"},
                        },
                        ignoreNullValues=_one_of("true", "false"),
                    ),
                },
                metricType=_one_of("AverageValue", "Value"),
            )
        ),
    },
    pollingInterval=COUNT,
    cooldownPeriod=COUNT,
    fallback=_object(
        {"failureThreshold": COUNT, "replicas": COUNT},
        behavior=_one_of("static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"),
    ),
    advanced=_object(
        {"horizontalPodAutoscalerConfig": _object({"behavior": _object({"scaleUp": _SCALING, "scaleDown": _SCALING})})}
    ),
)
_POD_MONITOR = _object(
    {
        "selector": _object({"matchLabels": LABELS}),
        "podMetricsEndpoints": _some(
            _object({"port": TEXT, "path": TEXT, "interval": DURATION, "scrapeTimeout": DURATION})
        ),
    },
    jobLabel=TEXT,
)
_RULE = {
    "type": "object",
    "properties": {
        "expr": TEXT,
        "record": TEXT,
        "alert": TEXT,
        "for": DURATION,
        "labels": LABELS,
        "annotations": LABELS,
    },
    "required": ["expr"],
    "oneOf": [{"required": ["record"]}, {"required": ["alert"]}],
    "additionalProperties": False,
}
_PROMETHEUS_RULE = _object({"groups": _some(_object({"name": TEXT, "rules": _some(_RULE)}))})
_GRPC_ROUTE = _object(
    {
        "parentRefs": _some(_object({"name": TEXT}, namespace=TEXT), 32),
        "rules": _some(
            _object(
                {"backendRefs": _some(_object({"name": TEXT, "port": PORT}), 16)},
                matches=_some(_object({"method": _object({"service": TEXT}, method=TEXT)}), 64),
            ),
            16,
        ),
    },
    hostnames=_some(TEXT, 16),
)
_BACKEND_TLS_POLICY = _object(
    {
        "targetRefs": _some(_object({"group": {"type": "string"}, "kind": TEXT, "name": TEXT}, sectionName=TEXT), 16),
        "validation": _object(
            {"hostname": TEXT},
            caCertificateRefs=_some(_object({"group": {"type": "string"}, "kind": TEXT, "name": TEXT}), 8),
        ),
    }
)
_INFERENCE_POOL = _object(
    {
        "selector": _object({"matchLabels": LABELS}),
        "targetPorts": _some(_object({"number": PORT}), 8),
        "endpointPickerRef": _object(
            {"name": TEXT, "port": _object({"number": PORT})}, failureMode=_one_of("FailOpen", "FailClose")
        ),
    },
    appProtocol=_one_of("http", "kubernetes.io/h2c"),
)


def _resource(api_version: str, kind: str, spec: Schema) -> Schema:
    metadata = _object({"name": TEXT}, namespace=TEXT, labels=LABELS, annotations=LABELS)
    head = {"apiVersion": _one_of(api_version), "kind": _one_of(kind)}
    return _object({**head, "metadata": metadata, "spec": spec})


SCHEMAS = {
    schema["properties"]["kind"]["enum"][0]: schema
    for schema in (
        _resource("keda.sh/v1alpha1", "ScaledObject", _SCALED_OBJECT),
        _resource("monitoring.coreos.com/v1", "PodMonitor", _POD_MONITOR),
        _resource("monitoring.coreos.com/v1", "PrometheusRule", _PROMETHEUS_RULE),
        _resource("gateway.networking.k8s.io/v1", "GRPCRoute", _GRPC_ROUTE),
        _resource("gateway.networking.k8s.io/v1", "BackendTLSPolicy", _BACKEND_TLS_POLICY),
        _resource("inference.networking.k8s.io/v1", "InferencePool", _INFERENCE_POOL),
    )
} | kserve_schemas.load()
