"""The Open Inference Protocol: docs/open-inference.md."""

from __future__ import annotations

from fastqps._front import INFER_OUTPUTS
from fastqps.frontdoor.openapi.schemas import (
    BOOL,
    COUNT,
    REFUSALS,
    STRING,
    Json,
    array,
    fields,
    operation,
    optional,
)

# The routes of Triton's methods that have no counterpart here.
_MODEL, _REGION = "/v2/models/{model}", "/region/{region}"
UNSERVED = {
    "RepositoryModelLoad": [("POST", "/v2/repository/models/{model}/load")],
    "RepositoryModelUnload": [("POST", "/v2/repository/models/{model}/unload")],
    "TraceSetting": [(verb, path + "/trace/setting") for verb in ("GET", "POST") for path in ("/v2", _MODEL)],
    "LogSettings": [("GET", "/v2/logging"), ("POST", "/v2/logging")],
}
for _kind in ("System", "Cuda"):
    _path = f"/v2/{_kind.lower()}sharedmemory"
    UNSERVED |= {
        f"{_kind}SharedMemoryStatus": [("GET", f"{_path}{region}/status") for region in ("", _REGION)],
        f"{_kind}SharedMemoryRegister": [("POST", f"{_path}{_REGION}/register")],
        f"{_kind}SharedMemoryUnregister": [("POST", f"{_path}{region}/unregister") for region in ("", _REGION)],
    }

ERROR = fields("error", error=STRING)
_DATATYPES = ["BYTES", "FP16", "FP32", "INT8", "INT32", "INT64", "UINT8"]
_SHAPE = array({"type": "integer", "minimum": -1})
_ELEMENTS = array({"type": ["string", "number", "null", "array"]})
_INPUT = fields(
    "name datatype shape",
    name={"enum": ["text", "text_pair", "input_ids", "attention_mask"]},
    datatype={"enum": ["BYTES", "INT32", "INT64"]},
    shape=array(COUNT, minItems=1, maxItems=2),
    data=_ELEMENTS,
    parameters=optional(fields(binary_data_size=COUNT)),
)
_OUTPUT = fields(
    "name", name={"enum": [*dict.fromkeys(name for _, name, _ in INFER_OUTPUTS)]}, parameters=optional(fields())
)
_INFER = fields(
    "inputs",
    id=optional(STRING),
    inputs=array(_INPUT, minItems=1),
    outputs=optional(array(_OUTPUT)),
    parameters=optional(fields()),
)
_TENSOR = fields("name datatype shape", name=STRING, datatype={"enum": _DATATYPES}, shape=_SHAPE, data=_ELEMENTS)
_INFERRED = fields(
    "model_name model_version outputs",
    model_name=STRING,
    model_version=STRING,
    id=STRING,
    outputs=array(_TENSOR),
)
_METADATA = fields(
    "name versions platform inputs outputs",
    name=STRING,
    versions=array(STRING),
    platform=STRING,
    inputs=array(fields("name datatype shape", name=STRING, datatype=STRING, shape=_SHAPE)),
    outputs=array(fields("name datatype shape", name=STRING, datatype=STRING, shape=_SHAPE)),
)
_STATISTICS = fields("model_stats", model_stats=array(fields("name version", name=STRING, version=STRING)))
_EXAMPLE = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a text"]}]}
_NO_MODEL = {404: REFUSALS[404]}


def _of_a_model() -> dict[tuple[str, str], Json]:
    infer = operation(
        "Predict; with the binary tensor data extension", _INFERRED, ERROR, request=_INFER, example=_EXAMPLE
    )
    ready = fields("name ready", name=STRING, ready=BOOL)
    rows = {
        ("POST", "/infer"): infer,
        ("GET", ""): operation("The model's inputs and outputs", _METADATA, ERROR, refusals=_NO_MODEL),
        ("GET", "/ready"): operation(
            "Whether the model is served", ready, ERROR, refusals={**_NO_MODEL, 503: "It is not."}
        ),
        ("GET", "/config"): operation(
            "The model's configuration in Triton's form", fields("name", name=STRING), ERROR, refusals=_NO_MODEL
        ),
        ("GET", "/stats"): operation("Counts and times", _STATISTICS, ERROR, refusals=_NO_MODEL),
    }
    return {
        (verb, f"/v2/models/{{model}}{of_version}{end}"): row
        for (verb, end), row in rows.items()
        for of_version in ("", "/versions/{version}")
    }


OPERATIONS: dict[tuple[str, str], Json] = {
    **_of_a_model(),
    ("GET", "/v2"): operation(
        "The server's name and version",
        fields("name version extensions", name=STRING, version=STRING, extensions=array(STRING)),
        ERROR,
        refusals={},
    ),
    ("GET", "/v2/health/live"): operation("Whether the server lives", fields("live", live=BOOL), ERROR, refusals={}),
    ("GET", "/v2/health/ready"): operation(
        "Whether all models are served", fields("ready", ready=BOOL), ERROR, refusals={503: "Not all are."}
    ),
    ("GET", "/v2/models/stats"): operation("Counts and times of all models", _STATISTICS, ERROR, refusals={}),
    ("POST", "/v2/repository/index"): operation(
        "The models",
        array(fields("name version state", name=STRING, version=STRING, state=STRING)),
        ERROR,
        request=fields(ready=BOOL),
        example={"ready": True},
        refusals={400: REFUSALS[400]},
    ),
    **{
        route: operation("501: not served", None, ERROR, refusals={501: "The message says why."})
        for routes in UNSERVED.values()
        for route in routes
    },
}
