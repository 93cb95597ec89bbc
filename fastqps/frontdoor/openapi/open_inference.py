"""The Open Inference Protocol: docs/open-inference.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.schemas import Json

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

ERROR = js.fields("error", error=js.STRING)
_DATATYPES = ["BYTES", "FP16", "FP32", "INT8", "INT32", "INT64", "UINT8"]
_SHAPE = js.array({"type": "integer", "minimum": -1})
_ELEMENTS = js.array({"type": ["string", "number", "null", "array"]})
_INPUT = js.fields(
    "name datatype shape",
    name={"enum": ["text", "text_pair", "input_ids", "attention_mask"]},
    datatype={"enum": ["BYTES", "INT32", "INT64"]},
    shape=js.array(js.COUNT, minItems=1, maxItems=2),
    data=_ELEMENTS,
    parameters=js.optional(js.fields(binary_data_size=js.COUNT)),
)
_OUTPUT = js.fields("name", name=js.STRING, parameters=js.optional(js.fields()))
_INFER = js.fields(
    "inputs",
    id=js.optional(js.STRING),
    inputs=js.array(_INPUT, minItems=1),
    outputs=js.optional(js.array(_OUTPUT)),
    parameters=js.optional(js.fields()),
)
_TENSOR = js.fields("name datatype shape", name=js.STRING, datatype={"enum": _DATATYPES}, shape=_SHAPE, data=_ELEMENTS)
_INFERRED = js.fields(
    "model_name model_version outputs",
    model_name=js.STRING,
    model_version=js.STRING,
    id=js.STRING,
    outputs=js.array(_TENSOR),
)
_PARAMETERS: Json = {
    **js.GENERATE_OPTIONS,
    "logprobs": js.optional(js.BOOL),
    "top_logprobs": js.optional(js.COUNT),
    "prompt_logprobs": js.optional(js.COUNT),
    "echo": js.optional(js.BOOL),
}
_GENERATE = js.fields(
    "text_input", text_input=js.STRING, id=js.optional(js.STRING), parameters=js.optional(js.fields(**_PARAMETERS))
)
_NUMBERS = js.array({"type": ["number", "null"]})
_MADE: Json = {
    "text_output": js.STRING,
    "finish_reason": {"enum": ["stop", "length"]},
    **{prompt + "token_id": js.array(js.COUNT) for prompt in ("", "prompt_")},
    **{prompt + "logprob": _NUMBERS for prompt in ("", "prompt_")},
    **{prompt + "top_token_id": js.array(js.array(js.COUNT)) for prompt in ("", "prompt_")},
    **{prompt + "top_logprob": js.array(_NUMBERS) for prompt in ("", "prompt_")},
}
_GENERATED = js.fields(
    "model_name model_version text_output finish_reason num_input_tokens num_output_tokens",
    model_name=js.STRING,
    model_version=js.STRING,
    id=js.STRING,
    **_MADE,
    num_input_tokens=js.COUNT,
    num_output_tokens=js.COUNT,
    other_choices=js.array(js.fields("text_output finish_reason", **_MADE)),
)
_METADATA = js.fields(
    "name versions platform inputs outputs",
    name=js.STRING,
    versions=js.array(js.STRING),
    platform=js.STRING,
    inputs=js.array(js.fields("name datatype shape", name=js.STRING, datatype=js.STRING, shape=_SHAPE)),
    outputs=js.array(js.fields("name datatype shape", name=js.STRING, datatype=js.STRING, shape=_SHAPE)),
)
_STATISTICS = js.fields(
    "model_stats", model_stats=js.array(js.fields("name version", name=js.STRING, version=js.STRING))
)
_EXAMPLE = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a text"]}]}
_NO_MODEL = {404: js.REFUSALS[404]}


def _of_a_model() -> dict[tuple[str, str], Json]:
    infer = js.operation(
        "Predict; with the binary tensor data extension", _INFERRED, ERROR, request=_INFER, example=_EXAMPLE
    )
    generate, stream = (
        js.operation(
            summary,
            _GENERATED,
            ERROR,
            request=_GENERATE,
            example={"text_input": "She have a apple."},
            streamed=streamed,
        )
        for summary, streamed in (("Generate", False), ("Generate, piece by piece", True))
    )
    ready = js.fields("name ready", name=js.STRING, ready=js.BOOL)
    rows = {
        ("POST", "/infer"): infer,
        ("POST", "/generate"): generate,
        ("POST", "/generate_stream"): stream,
        ("GET", ""): js.operation("The model's inputs and outputs", _METADATA, ERROR, refusals=_NO_MODEL),
        ("GET", "/ready"): js.operation(
            "Whether the model is served", ready, ERROR, refusals={**_NO_MODEL, 503: "It is not."}
        ),
        ("GET", "/config"): js.operation(
            "The model's configuration in Triton's form", js.fields("name", name=js.STRING), ERROR, refusals=_NO_MODEL
        ),
        ("GET", "/stats"): js.operation("Counts and times", _STATISTICS, ERROR, refusals=_NO_MODEL),
    }
    return {
        (verb, f"/v2/models/{{model}}{of_version}{end}"): row
        for (verb, end), row in rows.items()
        for of_version in ("", "/versions/{version}")
    }


OPERATIONS: dict[tuple[str, str], Json] = {
    **_of_a_model(),
    ("GET", "/v2"): js.operation(
        "The server's name and version",
        js.fields("name version extensions", name=js.STRING, version=js.STRING, extensions=js.array(js.STRING)),
        ERROR,
        refusals={},
    ),
    ("GET", "/v2/health/live"): js.operation(
        "Whether the server lives", js.fields("live", live=js.BOOL), ERROR, refusals={}
    ),
    ("GET", "/v2/health/ready"): js.operation(
        "Whether all models are served", js.fields("ready", ready=js.BOOL), ERROR, refusals={503: "Not all are."}
    ),
    ("GET", "/v2/models/stats"): js.operation("Counts and times of all models", _STATISTICS, ERROR, refusals={}),
    ("POST", "/v2/repository/index"): js.operation(
        "The models",
        js.array(js.fields("name version state", name=js.STRING, version=js.STRING, state=js.STRING)),
        ERROR,
        request=js.fields(ready=js.BOOL),
        example={"ready": True},
        refusals={400: js.REFUSALS[400]},
    ),
    **{
        route: js.operation("501: not served", None, ERROR, refusals={501: "The message says why."})
        for routes in UNSERVED.values()
        for route in routes
    },
}
