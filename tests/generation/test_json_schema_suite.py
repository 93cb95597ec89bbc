"""The schemas of JSON-Schema-Test-Suite: each is refused, or its texts are valid and no invalid one is possible."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
from generators import write_generator

from fastqps import Engine
from fastqps.models import load_card
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Compiled, Vocabulary

pytestmark = pytest.mark.compute

SUITE = Path(__file__).parent / "data" / "json_schema_test_suite.jsonl"
MAX_INPUT, MAX_OUTPUT = 128, 64  # the longest instance is read, too
PROMPT = [5, 17, 200, 31]


class Group(NamedTuple):
    """Schemas of one subject, and instances that they allow or do not."""

    name: str
    schema: dict[str, Any]
    valid: list[Any]
    invalid: list[Any]


GROUPS = [Group(**json.loads(line)) for line in SUITE.read_text().splitlines()]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_generator(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine(str(checkpoint), dtype="float32", max_input_tokens=MAX_INPUT, max_output_tokens=MAX_OUTPUT)


@pytest.fixture(scope="module")
def compiled(checkpoint: Path) -> list[tuple[Group, Compiled]]:
    """Those that are not refused."""
    vocabulary = Vocabulary(load_card(str(checkpoint), MAX_INPUT, max_output_tokens=MAX_OUTPUT))
    made = []
    for group in GROUPS:
        try:
            made.append((group, vocabulary.compile(Structure("json_schema", json.dumps(group.schema)))))
        except ValueError as error:
            assert str(error)
    return made


def test_which_instances_can_be_written(engine: Engine, compiled: list[tuple[Group, Compiled]]) -> None:
    generator = engine._generator
    assert generator and generator.prompts.tokenizer
    tokenizer = generator.prompts.tokenizer

    def can_be(matcher: Compiled, instance: Any) -> bool:
        begun = matcher.deep_copy()
        ids = tokenizer.encode(json.dumps(instance, ensure_ascii=False))[1:]  # without the first one of each text
        return begun.try_consume_tokens(ids) == len(ids) and bool(begun.is_accepting())

    assert [(each.name, one) for each, of in compiled for one in each.invalid if can_be(of, one)] == []
    possible = [can_be(of, one) for each, of in compiled for one in each.valid]
    # What is not: members in another order than the schema's, 1.0 for 1, what a `format` forbids.
    assert (len(compiled), sum(possible), len(possible)) == (170, 334, 358)


def test_texts_are_valid(engine: Engine, compiled: list[tuple[Group, Compiled]]) -> None:
    generator, chance = engine._generator, random.Random(0)
    assert generator and generator.prompts.detokenizer
    asked = {
        generator.add(PROMPT, json_schema=each.schema, temperature=1.0, seed=chance.getrandbits(32)): each
        for each, _ in compiled * 3
        if r"\\p" not in json.dumps(each.schema)  # classes of characters, which Python's patterns do not know
    }
    made: dict[int, list[int]] = {number: [] for number in asked}
    whole = 0
    while generator.busy:
        for token in generator.step():
            if token.finish == 1:
                instance = json.loads(generator.prompts.detokenizer.decode(made[token.request]))
                jsonschema.Draft202012Validator(asked[token.request].schema).validate(instance)
                whole += 1
            made[token.request].append(token.id)
    assert whole > len(asked) / 2  # the others reach their limit
