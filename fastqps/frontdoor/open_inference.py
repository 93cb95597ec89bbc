"""The rare methods of inference.GRPCInferenceService: what clients ask for before their first request.

The same questions over HTTP: open_inference_http.py.

The messages live in a descriptor pool of their own (fastqps/api/reflection.py), because a process may also import
tritonclient, which puts the same names into protobuf's default pool.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from fastqps import __version__
from fastqps._core import now_ns
from fastqps._front import INFER_OUTPUTS
from fastqps.api.reflection import message_class
from fastqps.errors import StatusCode
from fastqps.frontdoor.rare_calls import CallFailed, RareMethod
from fastqps.frontdoor.served import ServedModel, ServedModels

SERVICE = "inference.GRPCInferenceService"
TYPES = {"BYTES": "TYPE_STRING", "INT32": "TYPE_INT32", "INT64": "TYPE_INT64", "FP32": "TYPE_FP32"}
# Triton's methods without a counterpart here, and why.
UNSERVED = {
    "RepositoryModelLoad": "models are loaded at start and by a reload",
    "RepositoryModelUnload": "models are loaded at start and by a reload",
    "SystemSharedMemoryStatus": "tensors travel in the messages",
    "SystemSharedMemoryRegister": "tensors travel in the messages",
    "SystemSharedMemoryUnregister": "tensors travel in the messages",
    "CudaSharedMemoryStatus": "tensors travel in the messages",
    "CudaSharedMemoryRegister": "tensors travel in the messages",
    "CudaSharedMemoryUnregister": "tensors travel in the messages",
    "TraceSetting": "traces are set when the server starts",
    "LogSettings": "logs are set when the server starts",
}

Tensor = tuple[str, str, list[int]]  # name, datatype, the sizes after the first; -1: any


def inputs(model: ServedModel) -> list[Tensor]:
    """The input tensors that a client may send. The first dimension counts the items.

    Texts may also have no second one, but Triton's clients want a dimension beside that of the batch.
    """
    found: list[Tensor] = []
    if model.card.tokenizer:
        found.append(("text", "BYTES", [1]))
        if model.card.traits.takes_pairs and not model.card.static:
            found.append(("text_pair", "BYTES", [1]))
    if not model.card.pairs_only and not model.card.traits.spans:
        found += [("input_ids", "INT64", [-1]), ("attention_mask", "INT64", [-1])]
    return found


def outputs(model: ServedModel) -> list[Tensor]:
    """The output tensors that need no parameter."""
    card = model.card
    sizes = {"embedding": [card.dimensions], "token_embedding": [card.dimensions], "scores": [len(card.labels)]}
    missing = "text" if card.generates and not card.tokenizer else None
    found = [(name, datatype) for task, name, datatype in INFER_OUTPUTS if task == card.task and name != missing]
    return [(name, datatype, sizes.get(name, [])) for name, datatype in found]


def methods(models: ServedModels) -> list[RareMethod]:
    """The table of the methods that Python answers."""
    served = [_rare(models, name) for name in _answers()]
    return served + [RareMethod(f"/{SERVICE}/{name}", True, _unserved(name)) for name in UNSERVED]


def answer(models: ServedModels, name: str, request: Any) -> Any:
    """The response to the request of the method ``name``. Raises ``CallFailed``."""
    response: Any = message_class(f"inference.{name}Response")()
    _answers()[name](models, request, response)
    return response


def refuse(name: str) -> NoReturn:
    """Refuses a method of ``UNSERVED``."""
    raise CallFailed(StatusCode.UNIMPLEMENTED, f"{name} is not served here: {UNSERVED[name]}")


def _answers() -> dict[str, Callable[[ServedModels, Any, Any], None]]:
    return {
        "ServerLive": _server_live,
        "ServerReady": _server_ready,
        "ModelReady": _model_ready,
        "ServerMetadata": _server_metadata,
        "ModelMetadata": _model_metadata,
        "ModelConfig": _model_config,
        "ModelStatistics": _model_statistics,
        "RepositoryIndex": _repository_index,
    }


def _rare(models: ServedModels, name: str) -> RareMethod:
    request_type = message_class(f"inference.{name}Request")

    def call(message: bytes) -> bytes:
        try:
            request = request_type.FromString(message)
        except Exception:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, f"not a {name}Request") from None
        return bytes(answer(models, name, request).SerializeToString())

    return RareMethod(f"/{SERVICE}/{name}", True, call)


def _unserved(name: str) -> Callable[[bytes], bytes]:
    return lambda _: refuse(name)


def find(models: ServedModels, name: str, version: str = "") -> ServedModel:
    """The model that a request names. Raises ``CallFailed``."""
    model = models.find(name)
    if not model:
        names = ", ".join(f"'{each}'" for each in models.names())
        raise CallFailed(StatusCode.NOT_FOUND, f"name: '{name[:100]}' is not served here; served: {names}")
    if version not in ("", model.card.version):
        raise CallFailed(
            StatusCode.NOT_FOUND, f"version: '{version[:60]}' is not served; served: '{model.card.version}'"
        )
    return model


def _server_live(_: ServedModels, _request: Any, response: Any) -> None:
    response.live = True


def _server_ready(models: ServedModels, _request: Any, response: Any) -> None:
    response.ready = all(model.ready for model in models.all())


def _model_ready(models: ServedModels, request: Any, response: Any) -> None:
    """A model that is not served is not ready, as in Triton, whose clients wait for a model by this call."""
    model = models.find(request.name)
    response.ready = model is not None and request.version in ("", model.card.version) and model.ready


def _server_metadata(_: ServedModels, _request: Any, response: Any) -> None:
    response.name = "fastqps"
    response.version = __version__
    response.extensions.extend(["binary_tensor_data", "model_configuration", "model_repository", "statistics"])


def _model_metadata(models: ServedModels, request: Any, response: Any) -> None:
    model = find(models, request.name, request.version)
    response.name = model.card.name
    response.versions.append(model.card.version)
    response.platform = "fastqps"
    for tensors, into in ((inputs(model), response.inputs), (outputs(model), response.outputs)):
        for name, datatype, sizes in tensors:
            into.add(name=name, datatype=datatype, shape=[-1, *sizes])


def _model_config(models: ServedModels, request: Any, response: Any) -> None:
    model = find(models, request.name, request.version)
    config = response.config
    config.name = model.card.name
    config.platform = config.backend = "fastqps"
    config.max_batch_size = models.items_max
    if model.card.generates:  # ModelStreamInfer answers piece by piece
        config.model_transaction_policy.decoupled = True
    for name, datatype, sizes in inputs(model):
        config.input.add(name=name, data_type=TYPES[datatype], dims=sizes, optional=True)
    for name, datatype, sizes in outputs(model):
        config.output.add(name=name, data_type=TYPES[datatype], dims=sizes or [1])


def _model_statistics(models: ServedModels, request: Any, response: Any) -> None:
    """Each duration is the sum over what its own count counts: calls for ``success`` and ``fail``, else items."""
    wanted = [find(models, request.name, request.version)] if request.name else models.all()
    doors = models.door_stats()
    for model in wanted:
        dispatchers = models.dispatcher_stats(model)
        entry = response.model_stats.add(
            name=model.card.name,
            version=str(int(model.card.version, 16)),  # perf_analyzer ends unless it is a decimal number
            last_inference=_milliseconds_since_1970(max(door.answered_at_ns[model.index] for door in doors)),
            inference_count=sum(int(door.items[model.index, StatusCode.OK]) for door in doors),
            execution_count=sum(process.batch_items.count for process in dispatchers),
        )
        stats = entry.inference_stats
        for door in doors:
            methods = door.request[model.index]
            codes = door.requests[model.index, : len(methods)].sum(axis=0)
            stats.success.count += int(codes[StatusCode.OK])
            stats.success.ns += sum(method.sum for method in methods) - door.failed_ns[model.index]
            stats.fail.count += int(codes.sum() - codes[StatusCode.OK])
            stats.fail.ns += door.failed_ns[model.index]
        for duration, stage in (
            (stats.queue, "queue"),
            (stats.compute_input, "gather"),
            (stats.compute_infer, "device"),
            (stats.compute_output, "scatter"),
        ):
            duration.count = sum(process.stage[stage].count for process in dispatchers)
            duration.ns = sum(process.stage[stage].sum for process in dispatchers)


def _milliseconds_since_1970(at_ns: int) -> int:
    """Of a time of ``now_ns``; 0 stays 0."""
    return (time.time_ns() - now_ns() + at_ns) // 1_000_000 if at_ns else 0


def _repository_index(models: ServedModels, request: Any, response: Any) -> None:
    for model in models.all():
        if model.ready or not request.ready:
            response.models.add(
                name=model.card.name, version=model.card.version, state="READY" if model.ready else "UNAVAILABLE"
            )
