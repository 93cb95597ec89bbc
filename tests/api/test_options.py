"""The rows of csrc/contract/options.h against the .proto, and what Python declares by hand against the rows."""

from dataclasses import fields

import pytest
from google.protobuf.descriptor import FieldDescriptor as Field

from fastqps._core import OPTIONS, OptionRow
from fastqps.api import request, structures
from fastqps.models.files.generation_keys import LogitOptions
from fastqps.v1 import predict_pb2 as pb

pytestmark = pytest.mark.compute

MESSAGES = {"generate": pb.GenerateOptions, "output": pb.OutputOptions}
KINDS = {
    "uint32": (Field.TYPE_UINT32, False),
    "uint64": (Field.TYPE_UINT64, False),
    "enum": (Field.TYPE_ENUM, False),
    "float": (Field.TYPE_FLOAT, False),
    "bool": (Field.TYPE_BOOL, False),
    "ids": (Field.TYPE_UINT32, True),
    "texts": (Field.TYPE_STRING, True),
    "biases": (Field.TYPE_MESSAGE, True),
    "text": (Field.TYPE_STRING, False),
}
PYTHON = {"uint32": "int", "uint64": "int", "float": "float", "bool": "bool", "ids": "Sequence[int]"}
PYTHON |= {"biases": "Mapping[int, float]"}


def rows_of(message: str) -> list[OptionRow]:
    return [row for row in OPTIONS if row.path == f"{message}.{row.name}"]


@pytest.mark.parametrize("message", MESSAGES)
def test_rows_are_the_fields_of_the_proto(message: str) -> None:
    descriptors = MESSAGES[message].DESCRIPTOR.fields
    proto = {
        f.name: (f.number, (f.type, f.is_repeated), f.has_presence and not f.is_repeated, f.enum_type)
        for f in descriptors
    }
    rows = {row.name: (row.number, KINDS[row.kind], row.optional) for row in rows_of(message)}
    assert rows == {name: each[:3] for name, each in proto.items()}
    assert list(rows) == [f.name for f in descriptors]
    for row in rows_of(message):
        if row.kind == "enum":
            assert row.high == max(value.number for value in proto[row.name][3].values)


def test_the_step_services_own_field_is_free_in_the_proto() -> None:
    assert 15 not in pb.GenerateOptions.DESCRIPTOR.fields_by_number


def test_the_clients_options_are_the_rows() -> None:
    by_name = {row.name: row for row in OPTIONS}
    of_python = set(request.GenerateOptions.__annotations__)
    structure = {"structure", "structure_text"}  # of which Python has an option for each kind
    assert of_python - set(structures.KINDS) == {row.name for row in rows_of("generate")} - structure
    assert [*pb.Structure.keys()][1:] == [f"STRUCTURE_{kind.upper()}" for kind in structures.KINDS]
    assert set(by_name) - structure < set(request.Options.__annotations__)
    assert set(request._COUNTS) == {name for name, row in by_name.items() if row.zero_is_absent}
    for name, row in by_name.items():
        if row.kind in PYTHON:
            assert request.option_type(name) == PYTHON[row.kind], name


def test_a_checkpoint_has_the_options_of_the_rows() -> None:
    of_checkpoint = {row.checkpoint for row in OPTIONS if row.checkpoint}
    assert of_checkpoint < {f.name for f in fields(LogitOptions)}
