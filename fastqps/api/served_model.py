"""A served model as ListModels describes it. Shared by both clients."""

from dataclasses import dataclass, field, fields

from ..v1 import predict_pb2 as pb


@dataclass(slots=True)
class Model:
    """A served model. `version`: 12 hex digits of the checkpoint's digest; `task`: its name in fastqps.v1.Task in lower
    case, such as embed; `repeatable`: answers do not depend on what else the server computes; `takes_chats`: it has a
    chat template; `warnings`: what its operator should know, such as a limit below the model's own."""

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
    takes_chats: bool = False


def read_models(data: bytes) -> list[Model]:
    """A serialized ListModelsResponse. Raises DecodeError if it is none."""
    return [_model(message) for message in pb.ListModelsResponse.FromString(data).models]


def _model(message: pb.Model) -> Model:
    values = {field.name: getattr(message, field.name) for field in fields(Model)}
    known = message.task in pb.Task.values()
    task = pb.Task.Name(message.task).removeprefix("TASK_").lower() if known else str(message.task)
    lists = {name: list(value) for name, value in values.items() if not isinstance(value, str | int)}
    return Model(**{**values, **lists, "task": task})
