"""Chat templates and conversations that nobody means well with: bounded, and refused in words."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import jinja2
import pytest
from decoders import write_byte_tokenizer

from fastqps.frontdoor.slow_tokenizers.worker import conversation
from fastqps.models.chat.card import ChatCard
from fastqps.models.chat.child import FORM_MAX, TABLE_BYTES_MAX
from fastqps.models.chat.conversation import Message
from fastqps.models.chat.derive import derive
from fastqps.models.chat.environment import environment
from fastqps.models.chat.reading import read_chat
from fastqps.models.chat.spellings import Spellings
from fastqps.models.chat.template import ARGUMENTS, ChatTemplate
from fastqps.models.chat.tokens import ChatTokens
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute
JOINS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
UPPER = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"  # no table has it


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bytes")
    write_byte_tokenizer(folder)
    return (folder / "tokenizer.json").read_text()


def read(folder: Path, source: str, template: Any) -> tuple[ChatCard | None, str]:
    """What the checkpoint's ``chat_template`` becomes, and the warnings."""
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    card, warnings = read_chat(folder, source, {})
    return card, " ".join(warnings)


def encoded(card: ChatCard, source: str, content: str, variables: dict[str, Any]) -> str:
    """The text of the ids of one message."""
    tokenizer = Tokenizer.from_source(source)
    return tokenizer.decode(ChatTokens(card, tokenizer).encode([Message("user", content)], "closed", variables).ids)


@pytest.mark.parametrize("stated", [["x"], [None], [["default", "x"]], [{"name": "rag", "template": JOINS}], 5, {}])
def test_templates_without_a_default_one(stated: Any, source: str, tmp_path: Path) -> None:
    card, why = read(tmp_path, source, stated)
    assert card is None and "none of the templates is named 'default'" in why


@pytest.mark.parametrize(
    "expression",
    ["{{ 'x' | probe }}", "{% autoescape 'x' | probe %}{% endautoescape %}", "{% if 'x' | probe %}{% endif %}"],
)
def test_compiling_computes_nothing(expression: str) -> None:
    """A worker's limits are not those of the process that compiles its template."""
    sandbox = environment()
    asked: list[str] = []
    sandbox.filters["probe"] = asked.append
    try:
        sandbox.from_string(expression)
    except jinja2.TemplateSyntaxError as error:
        assert "autoescape is not supported" in str(error)
    assert not asked


def test_a_table_that_is_too_long_is_none(source: str, tmp_path: Path) -> None:
    card, why = read(tmp_path, source, "{{ 'x' * 300000 }}" + JOINS)
    assert card and not card.table and f"at most {TABLE_BYTES_MAX}" in why


def test_a_template_that_renders_nothing_says_why(source: str, tmp_path: Path) -> None:
    card, why = read(tmp_path, source, "{% include 'other' %}" + JOINS)
    assert card and not card.table and "no loader" in why


@pytest.mark.parametrize("form", ["%f", "%z", "%Z", "%5d", "%N", "%", "%A" * FORM_MAX])
def test_times_that_are_not_the_same_in_c(form: str, source: str, tmp_path: Path) -> None:
    card, why = read(tmp_path, source, f"{{{{ strftime_now('{form}') }}}}" + JOINS)
    assert card and not card.table and "asks for the time in the form" in why


@pytest.mark.parametrize("form", ["%d %b %Y", "%-d/%m, %H:%M 100 %%", "%A" * (FORM_MAX // 2), "%c" * (FORM_MAX // 2)])
def test_times_of_a_table(form: str, source: str, tmp_path: Path) -> None:
    card, _ = read(tmp_path, source, f"{{{{ strftime_now('{form}') }}}}" + JOINS)
    assert card and card.table
    chat = [Message("user", "x")], "generate", {}
    for _ in range(3):  # a second may pass in between
        native = card.table.native.render([("user", "x")], "generate", "")
        if native and native[0].decode() == ChatTemplate(card.template, {}).render(*chat):
            break
    else:
        pytest.fail("the table's time is another one")


@pytest.mark.parametrize("template", [JOINS, UPPER])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_variables_with_names_of_the_conversation(name: str, template: str, source: str, tmp_path: Path) -> None:
    card, _ = read(tmp_path, source, template)
    assert card
    tokens = ChatTokens(card, Tokenizer.from_source(source))
    for value in (None, True, [1], "x"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be a variable"):
            tokens.encode([Message("user", "x")], "generate", {name: value})


@pytest.mark.parametrize("name", ["self", "args", "kwargs", "context", "loop", "m", "range", "raise_exception"])
def test_variables_with_any_other_name(name: str, source: str, tmp_path: Path) -> None:
    card, _ = read(tmp_path, source, UPPER)
    assert card
    assert encoded(card, source, "x", {name: 1}) == "X"


def test_a_content_that_is_repeated_without_end() -> None:
    """A table renders no more than its bound; the template itself has the limits of its process."""
    repeats = "{% for m in messages[1:] %}{{ messages[0].content }}{{ m.content }}{% endfor %}"
    template = "{% if messages[0].role == 'system' %}" + repeats + "{% else %}" + JOINS + "{% endif %}"
    native = derive(ChatTemplate(template, {})).native
    turns = [("user" if i % 2 else "assistant", "x") for i in range(1, 64)]
    found = native.render([("system", "y" * 1000), *turns], "closed", "")
    assert found and len(found[0]) == 63 * 1001
    assert native.render([("system", "y" * 1_000_000), *turns], "closed", "") is None


def test_private_characters_of_a_template_stay(source: str) -> None:
    """What stands for special tokens in contents is chosen from what the template has not."""
    card = ChatCard("\U00100000{{ text }}{{ messages[0].content | upper }}", (), None)
    assert encoded(card, source, "<end>", {"text": "\U00100001"}) == "\U00100000\U00100001<END>"


def test_an_empty_special_token(source: str) -> None:
    file = json.loads(source)
    file["added_tokens"].append({**file["added_tokens"][0], "id": 258, "content": ""})
    assert encoded(ChatCard(UPPER, (), None), json.dumps(file), "ab", {}) == "AB"


def test_variables_that_are_nested_deeply() -> None:
    with pytest.raises((ValueError, RecursionError)):
        conversation(([("user", "x")], "generate", '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"))


def slow_split(wanted: list[str], text: str) -> list[str]:
    longest_first = sorted(wanted, key=len, reverse=True)
    return re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text)


def slow_beginnings(wanted: list[str], text: str) -> set[int]:
    found = {i for i in range(len(text)) for each in wanted if text.startswith(each, i)}
    for end in (len(text), len(text.rstrip())):
        found |= {at for at in range(end) for each in wanted if each != text[at:end] and each.startswith(text[at:end])}
    return found


def test_spellings_are_those_of_a_slow_search() -> None:
    source = random.Random(0)
    for _ in range(3000):
        wanted = list({"".join(source.choices("<a|> ", k=source.randint(1, 4))) for _ in range(source.randint(1, 6))})
        text = "".join(source.choices("<a|> \n", k=source.randint(0, 12)))
        spellings = Spellings(wanted)
        assert list(spellings.split(text)) == slow_split(wanted, text)
        assert set(spellings.beginnings(text)) == slow_beginnings(wanted, text)


def test_thousands_of_special_tokens_cost_what_few_do() -> None:
    texts = ["<" * 20_000, *["<unused"] * 1024]

    def fastest_s(count: int) -> float:
        spellings = Spellings(f"<unused{i:04}>" for i in range(count))
        best = float("inf")
        for _ in range(5):
            begin = time.process_time()
            for text in texts:
                list(spellings.beginnings(text))
                list(spellings.split(text))
            best = min(best, time.process_time() - begin)
        return best

    assert fastest_s(8000) < 8 * fastest_s(8)
