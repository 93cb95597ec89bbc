"""The grammar model: the sentences that it learns from, and whether it corrects those that it never saw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.demo import correct as correct_demo
from examples.grammar import words
from examples.grammar.evaluate import correct
from examples.grammar.mistakes import KINDS, held_out, misspellings, pairs, vocabulary
from fastqps.api.prediction import Generation, Prediction
from fastqps.models.names import resolve
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute

BYTES_MAX = 5_000_000
ASKED = 200


def folder() -> Path:
    return resolve("grammar")[1]


def test_equal_seeds_give_equal_sentences() -> None:
    first, again, other = (list(islice(pairs(seed, held=False), 200)) for seed in (1, 1, 2))
    assert first == again and first != other


def test_mistakes_are_mistakes_and_have_one_correction() -> None:
    meant: dict[str, str] = {}
    kinds = set()
    for pair in islice(pairs(5, held=False), 20_000):
        kinds.add(pair.kind)
        assert (pair.wrong == pair.right) == (pair.kind == "none"), pair
        assert meant.setdefault(pair.wrong, pair.right) == pair.right, pair
    assert kinds == set(KINDS)


def test_held_out_sentences_are_never_learned() -> None:
    held = {pair.right for pair in islice(pairs(7, held=True), 2000)}
    learned = {pair.right for pair in islice(pairs(7, held=False), 20_000)}
    assert not held & learned
    assert all(map(held_out, held)) and not any(map(held_out, learned))


def test_articles() -> None:
    for word in ("apple", "hour", "honest", "umbrella", "unusual", "unhappy", "uncle", "old"):
        assert words.article(word) == "an", word
    for word in ("dog", "horse", "uniform", "useful", "university", "young"):
        assert words.article(word) == "a", word


def test_words_have_their_forms() -> None:
    verbs = {verb.base: (verb.third, verb.past, verb.participle, verb.ing) for verb in words.VERBS}
    assert verbs["carry"] == ("carries", "carried", "carried", "carrying")
    assert verbs["stop"] == ("stops", "stopped", "stopped", "stopping")
    assert verbs["write"] == ("writes", "wrote", "written", "writing")
    assert verbs["go"] == ("goes", "went", "gone", "going")
    assert verbs["see"] == ("sees", "saw", "seen", "seeing")
    nouns = {noun.one: noun.many for group in words.NOUNS.values() for noun in group}
    assert (nouns["child"], nouns["cherry"], nouns["toy"], nouns["box"]) == ("children", "cherries", "toys", "boxes")


def test_the_vocabulary_is_what_sentences_are_made_of() -> None:
    known = set(vocabulary())
    for pair in islice(pairs(11, held=False), 5000):
        assert all(word in known or word.lower() in known for word in re.findall(r"[\w']+", pair.right)), pair.right


def test_no_misspelling_is_a_word_or_could_mean_two() -> None:
    found = [wrong for wrongs in misspellings().values() for wrong in wrongs]
    assert len(found) == len(set(found)) > 10_000
    assert not set(found) & set(vocabulary())
    assert "teh" not in found and "yesterady" in misspellings()["yesterday"]


def test_the_weights_are_small() -> None:
    assert sum(path.stat().st_size for path in folder().iterdir()) <= BYTES_MAX


def test_answers_can_be_said_in_its_tokens() -> None:
    tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    for text in ("I see an owl.", "Has Zoë 3 ¢?", *(pair.wrong for pair in islice(pairs(13, held=True), 200))):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_it_corrects_sentences_that_it_never_saw() -> None:
    held = list(islice(pairs(17, held=True), ASKED))
    answers = correct(folder(), [pair.wrong for pair in held])
    failed = [(pair, answer) for pair, answer in zip(held, answers, strict=True) if answer != pair.right]
    assert len(failed) <= 0.05 * ASKED, failed


def test_transformers_reads_the_checkpoint_alike() -> None:
    texts = [pair.wrong for pair in islice(pairs(19, held=True), 16)]
    tokenizer = AutoTokenizer.from_pretrained(folder(), padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder(), dtype=torch.float32)
    prompts = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    made = model.generate(**prompts, max_new_tokens=64, do_sample=False, pad_token_id=model.config.eos_token_id)
    expected = tokenizer.batch_decode(made[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    assert correct(folder(), texts, "float32") == expected


@pytest.mark.parametrize("wrong", [0, correct_demo.PAGE // 10])
def test_the_demo_notices_wrong_answers(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = list(islice(pairs(correct_demo.SEED, held=True), correct_demo.PAGE))

    class Fake:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Fake:
            return self

        def __exit__(self, *_: object) -> None: ...
        def predict_stream(self, texts: Iterable[str]) -> Iterator[Prediction]:
            assert list(texts) == [pair.wrong for pair in held]
            for i, pair in enumerate(held):
                yield Prediction(i, generation=Generation("?" if i < wrong else pair.right, [1], "stop"))

    monkeypatch.setattr(correct_demo, "Client", Fake)
    assert correct_demo.show_page("") == bool(wrong)
