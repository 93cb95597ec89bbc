"""Reflection as stock clients ask for it, in one process with the stock packages' copies of the same messages."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from fastqps.api import descriptors, reflection

VERSIONS: list[reflection.Version] = ["v1", "v1alpha"]


def ask(version: reflection.Version, **question: Any) -> Any:
    """Asked and read with grpcio-reflection's own messages: the two versions have the same shape."""
    request = reflection_pb2.ServerReflectionRequest(host="h", **question)
    response = reflection_pb2.ServerReflectionResponse.FromString(
        reflection.answer(request.SerializeToString(), version)
    )
    assert response.valid_host == "h" and response.original_request == request
    return response


def file_names(response: Any) -> list[str]:
    assert response.WhichOneof("message_response") == "file_descriptor_response", response
    files = response.file_descriptor_response.file_descriptor_proto
    return [descriptor_pb2.FileDescriptorProto.FromString(file).name for file in files]


@pytest.mark.parametrize("version", VERSIONS)
def test_services_are_listed(version: reflection.Version) -> None:
    services = ask(version, list_services="").list_services_response.service
    assert [service.name for service in services] == [
        "fastqps.v1.PredictService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "inference.GRPCInferenceService",
        "tei.v1.Embed",
        "tei.v1.Info",
        "tei.v1.Predict",
        "tei.v1.Rerank",
        "tei.v1.Tokenize",
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        ("fastqps.v1.PredictService", "fastqps/v1/predict.proto"),
        ("fastqps.v1.PredictService.PredictBatch", "fastqps/v1/predict.proto"),
        ("fastqps.v1.PredictRequest", "fastqps/v1/predict.proto"),
        ("fastqps.v1.PredictRequest.token_ids", "fastqps/v1/predict.proto"),
        ("fastqps.v1.Priority", "fastqps/v1/predict.proto"),
        ("grpc.health.v1.Health.Watch", "grpc/health/v1/health.proto"),
        ("grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"),
        ("grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"),
        ("grpc.reflection.v1alpha.ErrorResponse", "grpc/reflection/v1alpha/reflection.proto"),
    ],
)
def test_symbols_are_found(version: reflection.Version, symbol: str, file: str) -> None:
    assert file_names(ask(version, file_containing_symbol=symbol)) == [file]


@pytest.mark.parametrize("version", VERSIONS)
def test_files_are_found_by_name_and_need_no_other(version: reflection.Version) -> None:
    for name in descriptors.FILES:
        response = ask(version, file_by_filename=name)
        assert file_names(response) == [name]
        pool = descriptor_pool.DescriptorPool()
        for file in response.file_descriptor_response.file_descriptor_proto:
            pool.AddSerializedFile(file)
        assert pool.FindFileByName(name)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"file_by_filename": "no.proto"}, 5),
        ({"file_containing_symbol": ""}, 5),
        ({"file_containing_symbol": "fastqps.v1.PredictService.Nope"}, 5),
        ({"file_containing_symbol": "google.protobuf.FileDescriptorProto"}, 5),
        ({"file_containing_extension": {"containing_type": "fastqps.v1.Usage", "extension_number": 5}}, 5),
        ({"all_extension_numbers_of_type": "fastqps.v1.Nope"}, 5),
        ({}, 12),
    ],
)
def test_what_is_not_there_is_an_error(version: reflection.Version, question: dict[str, Any], code: int) -> None:
    assert ask(version, **question).error_response.error_code == code


@pytest.mark.parametrize("version", VERSIONS)
def test_a_type_without_extensions_has_none(version: reflection.Version) -> None:
    response = ask(version, all_extension_numbers_of_type="fastqps.v1.Usage").all_extension_numbers_response
    assert (response.base_type_name, list(response.extension_number)) == ("fastqps.v1.Usage", [])


def test_bytes_that_are_no_request_are_answered() -> None:
    response = reflection_pb2.ServerReflectionResponse.FromString(reflection.answer(b"\xff\xff", "v1"))
    assert response.error_response.error_code == 3


def test_messages_have_the_stock_packages_shape() -> None:
    """Field by field: what grpcio's packages have and we have too must agree in number and type."""
    theirs = {"grpc.health.v1": health_pb2.DESCRIPTOR, "grpc.reflection.v1alpha": reflection_pb2.DESCRIPTOR}
    compared = 0
    for package, file in theirs.items():
        for message in file.message_types_by_name.values():
            try:
                ours = reflection.message_class(f"{package}.{message.name}").DESCRIPTOR
            except KeyError:
                assert message.name.startswith("HealthList")  # a newer call that is not served
                continue
            fields = [(f.name, f.number, f.type) for f in message.fields]
            assert [(f.name, f.number, f.type) for f in ours.fields] == fields
            compared += 1
    assert compared == 10


def test_v1_and_v1alpha_differ_in_the_package_only() -> None:
    def text(version: str) -> str:
        serialized = descriptors.FILES[f"grpc/reflection/{version}/reflection.proto"]
        return str(descriptor_pb2.FileDescriptorProto.FromString(serialized))

    assert text("v1alpha").replace("v1alpha", "v1") == text("v1")


def test_a_class_comes_from_the_private_pool() -> None:
    ours = reflection.message_class("grpc.health.v1.HealthCheckRequest")
    assert ours.DESCRIPTOR.file.pool is not health_pb2.DESCRIPTOR.pool
    assert ours is message_factory.GetMessageClass(ours.DESCRIPTOR)
