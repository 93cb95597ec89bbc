"""Texts with a structure, in process: the tokens of transformers under the masks of llguidance, in any company."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
import transformers as tr
from generators import EOS, write_generator
from nightly import nightly
from schemas import STRUCTURES, random_schema

from fastqps import Engine
from fastqps.errors import ModelError
from fastqps.models import load_card
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Vocabulary

pytestmark = pytest.mark.compute

MAX_INPUT, MAX_OUTPUT = 32, 96
PROMPT = [5, 17, 200, 31] * 5  # long enough that it is computed once for requests that come together


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_generator(tmp_path_factory.mktemp("structured"))


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine(str(checkpoint), dtype="float32", max_input_tokens=MAX_INPUT, max_output_tokens=MAX_OUTPUT)


@pytest.fixture(scope="module")
def vocabulary(checkpoint: Path) -> Vocabulary:
    return Vocabulary(load_card(str(checkpoint), MAX_INPUT, max_output_tokens=MAX_OUTPUT))


def structure(options: dict[str, Any]) -> Structure:
    (kind, value), *_ = options.items()
    text = "" if kind == "json_object" else value if isinstance(value, str) else json.dumps(value)
    return Structure(kind, text)


@torch.no_grad()
def greedy(
    model: tr.LlamaForCausalLM, vocabulary: Vocabulary, options: dict[str, Any], most: int = MAX_OUTPUT
) -> list[int]:
    """The likeliest tokens that the library allows, one forward pass for each."""
    matcher = vocabulary.compile(structure(options)).deep_copy() if options else None
    ids, cache, new = list(PROMPT), tr.DynamicCache(config=model.config), PROMPT
    for _ in range(most):
        logits = model(torch.tensor([new]), past_key_values=cache).logits[0, -1]
        if matcher:
            bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
            logits[torch.from_numpy(bits[: len(logits)] == 0)] = -torch.inf
        ids.append(int(logits.argmax()))
        if ids[-1] == EOS:
            break
        assert not matcher or matcher.consume_token(ids[-1])
        new = ids[-1:]
    return ids[len(PROMPT) :]


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> tr.LlamaForCausalLM:
    return tr.LlamaForCausalLM.from_pretrained(checkpoint).float().eval()


def test_tokens_are_those_of_transformers_under_the_librarys_masks(
    model: tr.LlamaForCausalLM, engine: Engine, vocabulary: Vocabulary
) -> None:
    wanted = {name: greedy(model, vocabulary, options) for name, options in STRUCTURES.items()}
    assert len({tuple(ids) for ids in wanted.values()}) == len(STRUCTURES) - 1  # one schema is there twice
    generator = engine._generator
    assert generator
    for names in ([*STRUCTURES], *([name] for name in STRUCTURES)):  # in company and alone
        made: dict[int, list[int]] = {generator.add(PROMPT, **STRUCTURES[name]): [] for name in names}
        while generator.busy:
            for token in generator.step():
                made[token.request].append(token.id)
        assert dict(zip(names, made.values(), strict=True)) == {name: wanted[name] for name in names}


@pytest.mark.parametrize(
    ("asked", "text", "finish"),
    [
        pytest.param({"ignore_eos": True, "regex": "ab"}, "ab", "stop", id="nothing follows what is complete"),
        pytest.param({"min_tokens": 9, "regex": "ab"}, "ab", "stop", id="a minimum yields"),
        pytest.param({"regex": "ab3", "suppressed": "3"}, "ab", "stop", id="other options leave no token"),
        pytest.param({"stop": "b", "regex": "abc"}, "a", "stop", id="a stop string"),
        pytest.param({"max_tokens": 1, "regex": "a{50}"}, None, "length", id="a limit cuts"),
    ],
)
def test_other_options_beside_a_structure(engine: Engine, asked: dict[str, Any], text: str | None, finish: str) -> None:
    options = dict(asked)
    if suppressed := options.pop("suppressed", None):  # the bytes of digits come first here; merges have letters
        tokenizer = engine._generator.prompts.tokenizer  # type: ignore[union-attr]
        assert tokenizer
        options["suppress_token_ids"] = tokenizer.encode(suppressed)[1:]
    made = engine.generate([PROMPT], logprobs=True, **options)[0]
    assert (text is None or made.text == text) and made.finish_reason == finish
    assert made.logprobs and all(np.isfinite(made.logprobs))


REFUSED = {
    "no JSON": ({"json_schema": "{"}, "no JSON: .*column 2"),
    "an unknown type": ({"json_schema": {"type": "strin"}}, "strin"),
    "an unknown type inside": (
        {"json_schema": {"properties": {"ok": {}, "a/b": {"type": "array", "items": {"type": "strin"}}}}},
        r"strin, at #/properties/a~1b/items$",
    ),
    "an unknown type behind references": (
        {"json_schema": {"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "of": {"type": "strin"}}},
                                   "list": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
                         "properties": {"a": {"$ref": "#/$defs/list"}}}},
        r"strin, at #/\$defs/node/properties/of$",
    ),
    "a keyword in one of 50 parts": (
        {"json_schema": {"anyOf": [*({"const": i} for i in range(50)), {"type": "object", "not": {}}]}},
        r'\["not"\], at #/anyOf/50$',
    ),
    "a keyword that cannot be kept": ({"json_schema": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
    "a schema of itself": ({"json_schema": {"$ref": "#"}}, "no text can satisfy it"),
    "3,000 deep": ({"json_schema": '{"items":' * 3000 + "{}" + "}" * 3000}, "deeply"),
    "too many branches": (
        {"json_schema": {"allOf": [{"anyOf": [{"properties": {f"{i}": {"type": t}}} for t in ("string", "integer")]}
                                   for i in range(16)]}},
        "large",
    ),
    "an open bracket": ({"regex": "(a"}, "regex"),
    "400 brackets": ({"regex": "(" * 400 + "a" + ")*" * 400}, "regex"),
    "a rule that is missing": ({"grammar": "start: a"}, "a"),
    "two": ({"grammar": "start: /a/", "regex": "a"}, "one structure"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_structure_that_cannot_be_is_refused_with_the_place(engine: Engine, name: str) -> None:
    options, part = REFUSED[name]
    with pytest.raises(ValueError, match=part):
        engine.generate([PROMPT], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"json_schema": {"type": "string", "maxLength": 10**9}},
        {"json_schema": {"type": "array", "items": {"type": "integer"}, "maxItems": 10**9}},
        {"json_schema": {"enum": [f"value {i * 7919 % 100_003}" for i in range(2500)]}},
        {"regex": "((((a{1,100}){1,100}){1,100}){1,100})"},
        {"regex": "(a|b)*a(a|b){40}"},
    ],
)
def test_large_automata_are_walked_as_far_as_a_text_goes(
    engine: Engine, vocabulary: Vocabulary, options: dict[str, Any]
) -> None:
    made = engine.generate([PROMPT], max_tokens=12, temperature=1.5, seed=1, **options)[0]
    matcher = vocabulary.compile(structure(options)).deep_copy()
    assert all(matcher.consume_token(token) for token in made.token_ids)
    assert made.finish_reason == "stop" or len(made.token_ids) == 12
    assert not matcher.is_error()


SPENT = {"regex": "(" + "|".join(f".*{letter}.{{30}}" for letter in "abcdefghij") + ")!"}


def test_a_structure_whose_texts_have_used_up_its_states_is_compiled_again(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text that needs one more ends with an error, and never as if it were complete."""
    monkeypatch.setattr("fastqps.structure.vocabulary._STATES_MAX", 600)
    engine = Engine(str(checkpoint), dtype="float32", max_input_tokens=MAX_INPUT, max_output_tokens=MAX_OUTPUT)
    failed = []
    for seed in range(40):
        try:
            made = engine.generate([PROMPT], max_tokens=12, temperature=1.0, seed=seed, **SPENT)[0]
        except ValueError as error:
            assert "too many states: 600" in str(error)
            failed.append(seed)
        else:
            assert (made.finish_reason, len(made.token_ids)) == ("length", 12)
    assert 0 < len(failed) < 20 and failed[0] > 0
    assert len(engine.generate([PROMPT] * 3, max_tokens=5, ignore_eos=True)) == 3


def test_a_device_that_computes_nothing_refuses_structures(checkpoint: Path) -> None:
    engine = Engine(str(checkpoint), device="null", max_input_tokens=MAX_INPUT, max_output_tokens=MAX_OUTPUT)
    assert engine.generate([PROMPT], max_tokens=2)[0].token_ids
    with pytest.raises(ModelError, match="computes no texts"):
        engine.generate([PROMPT], regex="a")


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 20))])
def test_texts_of_random_schemas_are_valid(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    schemas = [random_schema(chance) for _ in range(50)]
    generator = engine._generator
    assert generator and generator.prompts.detokenizer
    made: dict[int, list[int]] = {}
    asked: dict[int, dict[str, Any]] = {}
    for schema in schemas:
        number = generator.add(PROMPT, json_schema=schema, temperature=1.0, seed=chance.getrandbits(32))
        made[number], asked[number] = [], schema
    whole = 0
    while generator.busy:
        for token in generator.step():
            if token.finish == 1:
                text = generator.prompts.detokenizer.decode(made[token.request])
                jsonschema.validate(json.loads(text), asked[token.request])
                whole += 1
            made[token.request].append(token.id)
    assert whole > len(schemas) / 2  # the others wrote spaces up to their limit


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 40))])
def test_tokens_of_random_schemas_are_those_of_the_masks(
    model: tr.LlamaForCausalLM, engine: Engine, vocabulary: Vocabulary, seed: int
) -> None:
    chance = random.Random(seed)
    schemas = [random_schema(chance) for _ in range(25)]
    generator, most = engine._generator, 32
    assert generator
    made: dict[int, list[int]] = {generator.add(PROMPT, json_schema=each, max_tokens=most): [] for each in schemas}
    while generator.busy:
        for token in generator.step():
            made[token.request].append(token.id)
    for schema, tokens in zip(schemas, made.values(), strict=True):
        assert tokens == greedy(model, vocabulary, {"json_schema": schema}, most), schema
