"""Refusals name the fields that their callers know: what stands in their words is the same in every protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor
from paths import ROOT

from fastqps._core import OPTIONS
from fastqps.v1 import predict_pb2 as pb

STRING = r'"(?:[^"\\]|\\.)*"'
SOURCES = sorted((ROOT / "csrc/service").rglob("*.cpp"))
EDGE = "ids"  # of the messages of edges


def paths(message: Descriptor, before: str = "") -> Iterator[str]:
    """The fields of a message, and of those in it: generate.top_p."""
    for field in message.fields:
        yield before + field.name
        if field.message_type and not before:
            yield from paths(field.message_type, f"{field.name}.")


def test_refusals_have_fields_of_the_message() -> None:
    """The tables of field_names.h are asked for these."""
    known = {*paths(pb.PredictRequest.DESCRIPTOR), "input", EDGE}
    named = [name for path in SOURCES for name in re.findall(rf"refuse_field\(\s*({STRING}),", path.read_text())]
    named += re.findall(rf"return {{({STRING}),\s", (ROOT / "csrc/contract/check_request.cpp").read_text())
    named += [row.path for row in OPTIONS]
    assert len(named) > 50
    assert {name.strip('"') for name in named} <= known


def test_no_word_of_a_refusal_is_a_field_of_one_protocol() -> None:
    """Options by name are the same in all that have them; of another field, say what it is."""
    options = [row.name for row in OPTIONS if row.by_name]
    own = {path for path in paths(pb.PredictRequest.DESCRIPTOR) if "." in path or "_" in path} - set(options)
    assert {"token_ids", "generate.max_tokens"} <= own and "stop_token_ids" in options
    for path in SOURCES:
        for literals in re.findall(rf"(?:{STRING}\s*)+", path.read_text()):
            words = "".join(literals.split('"')[1::2])
            if " " in words:
                wrong = [name for name in own if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", words)]
                assert not wrong, f"{path.name}: {words}"
