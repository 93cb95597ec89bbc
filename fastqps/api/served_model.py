"""A served model as ListModels describes it. Shared by both clients."""

from dataclasses import dataclass, field

from ..v1 import predict_pb2 as pb


@dataclass(slots=True)
class Model:
    """A served model. `version`: 12 hex digits of the checkpoint's digest; `task`: its name in fastqps.v1.Task in lower
    case, such as embed; `repeatable`: answers do not depend on what else the server computes; `warnings`: what its
    operator should know, such as a limit below the model's own."""

    name: str
    version: str
    task: str
    is_default: bool
    input_tokens_max: int
    output_tokens_max: int
    dimensions: int
    labels: list[str]
    native_tokenizer: bool
    warnings: list[str] = field(default_factory=list)
    prompt_names: list[str] = field(default_factory=list)
    default_prompt_name: str = ""
    repeatable: bool = False


def read_models(data: bytes) -> list[Model]:
    """A serialized ListModelsResponse. Raises DecodeError if it is none."""
    return [
        Model(
            name=m.name,
            version=m.version,
            task=pb.Task.Name(m.task).removeprefix("TASK_").lower() if m.task in pb.Task.values() else str(m.task),
            is_default=m.is_default,
            input_tokens_max=m.input_tokens_max,
            output_tokens_max=m.output_tokens_max,
            dimensions=m.dimensions,
            labels=list(m.labels),
            native_tokenizer=m.native_tokenizer,
            warnings=list(m.warnings),
            prompt_names=list(m.prompt_names),
            default_prompt_name=m.default_prompt_name,
            repeatable=m.repeatable,
        )
        for m in pb.ListModelsResponse.FromString(data).models
    ]
