"""The checked-in generated code is what proto/ says, and lives beside other packages' copies of the same names."""

import importlib.util
from types import ModuleType

import pytest
from google.protobuf import descriptor_pb2
from paths import ROOT

from fastqps.api import descriptors
from fastqps.v1 import predict_pb2, predict_pb2_grpc

pytestmark = pytest.mark.compute


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    files = generator().compile_files(tmp_path_factory.mktemp("proto"))
    return {file.name: file for file in files}


def test_descriptors_are_up_to_date(compiled: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    checked_in = {name: descriptor_pb2.FileDescriptorProto.FromString(data) for name, data in descriptors.FILES.items()}
    public = {name: file for name, file in compiled.items() if name != generator().INTERNAL}
    assert checked_in == public, "run `make proto`"


def test_the_messages_are_up_to_date(compiled: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    checked_in = descriptor_pb2.FileDescriptorProto.FromString(predict_pb2.DESCRIPTOR.serialized_pb)
    assert checked_in == compiled["fastqps/v1/predict.proto"], "run `make proto`"


def test_the_stubs_are_up_to_date(compiled: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    (service,) = compiled["fastqps/v1/predict.proto"].service
    assert all(hasattr(predict_pb2_grpc.PredictServiceServicer, method.name) for method in service.method)


def test_every_proto_file_is_compiled(compiled: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    folder = ROOT / "proto"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.proto")} == set(compiled)


# A literal copy of what clients rely on. Numbers are never reused or changed; new ones may be added here.
NUMBERS = {
    "PredictRequest": {
        "model": 1, "text": 2, "token_ids": 3, "request_id": 4, "priority": 5, "generate": 6, "output": 7,
        "timeout_us": 8, "truncate": 9, "pair": 10, "tenant": 11, "group": 12, "prompt_name": 13,
        "chat": 16,
    },
    "Chat": {"messages": 1, "continue_final_message": 2, "variables": 3},
    "ChatMessage": {"role": 1, "content": 2},
    "PredictResponse": {
        "request_id": 1, "embedding": 2, "classification": 3, "generation": 4, "timings": 5, "status": 6, "usage": 7,
        "entities": 8, "sparse": 9, "multi": 10,
    },
    "Embedding": {"values": 1, "raw": 2, "dtype": 3},
    "Status": {"code": 1, "message": 2, "retry_after_ms": 4},
    "GenerateChunk": {
        "request_id": 1, "text": 2, "token_ids": 3, "finish_reason": 4, "logprobs": 5, "usage": 6, "timings": 7,
        "top_logprobs": 8, "prompt_logprobs": 9, "choice_scores": 10, "choice": 12,
    },
    "Generation": {
        "text": 1, "token_ids": 2, "finish_reason": 3, "logprobs": 5, "top_logprobs": 8, "prompt_logprobs": 9,
        "choice_scores": 10, "other_choices": 11,
    },
    "ChoiceScore": {"logprob": 1, "score": 2},
    "TopLogprobs": {"token_ids": 1, "logprobs": 2},
    "OutputOptions": {
        "dtype": 1, "dimensions": 2, "normalize": 3, "top_labels": 4, "raw_scores": 5, "timings": 6, "aggregation": 7,
        "max_active_dims": 8,
    },
    "Entity": {"label": 1, "score": 2, "start": 3, "end": 4},
    "SparseEmbedding": {"ids": 1, "weights": 2, "active": 3},
    "MultiVector": {"values": 1, "raw": 2, "dtype": 3, "dimensions": 4},
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_of_the_contract_stay(name: str) -> None:
    fields = predict_pb2.DESCRIPTOR.message_types_by_name[name].fields
    assert {field.name: field.number for field in fields} == NUMBERS[name]
